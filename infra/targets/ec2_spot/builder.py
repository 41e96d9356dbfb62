"""The builder of one stack, asked over AWS's APIs: whether the build is kept, who makes it now, make it. Never through Pulumi."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from infra.clouds.aws import marks
from infra.clouds.aws.session import NotThere, Session, region_of
from infra.targets.ec2_spot import builder_parts as b
from infra.targets.ec2_spot import resolving
from infra.targets.ec2_spot import resources as r
from infra.targets.ec2_spot.builder_made import Made
from infra.targets.ec2_spot.live import Live
from infra.targets.ec2_spot.names import BUILDS, Names
from infra.targets.ec2_spot.sweep import GONE
from infra.targets.protocol import Billable, DeploymentRef, KeptBuild
from startup import phases
from startup.spec import BUILDER_LIMIT

if TYPE_CHECKING:
    from infra.deployment import Deployment
    from infra.plan import Plan


def connect(plan: Plan, outputs: Mapping[str, object], owner: str, session: Session | None = None) -> Builder:
    """The builder of a stack. `outputs`: the stack's, empty while it is not up. `owner`: who pays. Makes no call yet."""
    return Builder(session or Session(r.config(plan).region), plan, outputs, owner)


def left_of(
    stack: str, settings: Mapping[str, object], owner: str, noted: DeploymentRef | None
) -> tuple[BuilderLive, DeploymentRef] | None:
    """A builder that may be there still: the one that a note names, else one of this stack and owner that lives."""
    region = region_of(noted.outputs.get("region") if noted is not None else settings.get("region"))
    session = Session(region)
    ref = noted or found(session, stack, owner)
    return (live(region, str(ref.outputs.get("bucket", "")), session), ref) if ref is not None else None


def found(session: Session, stack: str, owner: str) -> DeploymentRef | None:
    """A builder of this stack and owner that lives, by its tags, which say which bucket and build as well."""
    wanted = {
        "app": "flexserve",
        b.PURPOSE_TAG: b.PURPOSE,
        "flexserve-stack": marks.tag(stack),
        "flexserve-owner": marks.tag(owner),
    }
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items()]
    for group in session.pages("ec2", "describe_instances", "Reservations", Filters=filters):
        for item in group.get("Instances") or []:
            tags = marks.read(item.get("Tags"))
            if item["State"]["Name"] not in GONE and tags.get(marks.ID_TAG):
                outputs = {"region": session.region, "bucket": tags.get(b.BUCKET_TAG, ""), "build": tags.get(b.BUILD_TAG, "")}
                return DeploymentRef(stack, tags[marks.ID_TAG], outputs)
    return None


def live(region: str, bucket: str, session: Session | None = None) -> BuilderLive:
    """The running side of a builder whose note names region and bucket."""
    return BuilderLive(session or Session(region), bucket)


class BuilderLive(Live):
    """`LiveTarget` of a builder: what it says also when it is gone, and nothing of the deployment whose bucket it writes to."""

    def boot(self, deployment: DeploymentRef) -> phases.BootStatus | None:
        """From the machine; else from the report that it left in the bucket before it turned itself off."""
        return super().boot(deployment) or self._report(deployment)

    def inventory(self, deployment: DeploymentRef) -> Sequence[Billable]:
        """Without the bucket, unless the builder made it."""
        base = Names(deployment.id).base
        return [thing for thing in super().inventory(deployment) if thing.kind != "bucket" or thing.name == base]

    def _report(self, deployment: DeploymentRef) -> phases.BootStatus | None:
        if not self._bucket:
            return None
        text = read(self._session, self._bucket, f"{deployment.id}/{b.REPORT}")
        try:
            return phases.parse(json.loads(text)["documents"]) if text else None
        except (ValueError, LookupError, TypeError, AttributeError):
            return None


class Builder:
    """`infra.targets.protocol.Builds` of one stack."""

    def __init__(self, session: Session, plan: Plan, outputs: Mapping[str, object], owner: str) -> None:
        self._session, self._plan, self._outputs, self._owner = session, plan, outputs, owner
        self._bucket: str | None = None

    @property
    def key(self) -> str:
        """The name under which the build is kept."""
        assert self._plan.boot.ec2 is not None
        return self._plan.boot.ec2.build_key

    def kept(self) -> KeptBuild | None:
        """The build, where manifest and archive are both in the bucket."""
        bucket = self._known_bucket()
        folder = f"{BUILDS}{self.key}"
        text = read(self._session, bucket, f"{folder}/manifest.json") if bucket else ""
        try:
            manifest = json.loads(text) if text else {}
            archive, size = str(manifest["archive"]), int(manifest["size"])
            found = self._session.call("s3", "head_object", Bucket=bucket, Key=f"{folder}/{archive}")
        except (ValueError, LookupError, TypeError, NotThere):
            return None
        if int(found["ContentLength"]) != size:
            return None
        return KeptBuild(f"s3://{bucket}/{folder}/", size, manifest, _a_month(size, self._session.region))

    def find(self) -> DeploymentRef | None:
        """A builder of this stack and owner that lives, whoever began it."""
        return found(self._session, self._plan.deployment.stack, self._owner)

    def ref(self, id_: str) -> DeploymentRef:
        """A builder of this id, as a note keeps it."""
        outputs = {"region": self._session.region, "bucket": self._known_bucket() or Names(id_).base, "build": self.key}
        return DeploymentRef(self._plan.deployment.stack, id_, outputs)

    def live(self, ref: DeploymentRef) -> BuilderLive:
        """Its running side."""
        return live(self._session.region, str(ref.outputs.get("bucket", "")), self._session)

    def begin(self, ref: DeploymentRef, say: Callable[[str], None]) -> None:
        """Make the builder and all around it. Raises what AWS means, and leaves what it made to the inventory."""
        from catalog.loader import Catalog
        from startup.render import render

        deadline = int(self.live(ref).now().timestamp()) + BUILDER_LIMIT
        bucket = str(ref.outputs["bucket"])
        row = Catalog.load().builder_types[r.config(self._plan).build.machine_type]
        boot = render(b.boot_spec(self._plan, ref.id, bucket, deadline, row))
        made = Made(
            self._session,
            self._plan,
            ref.id,
            self._owner,
            bucket,
            deadline,
            say,
            own_bucket=bucket == Names(ref.id).base,
            new_bucket=not self._known_bucket(),
            image=str(self._outputs.get("host_image") or ""),
        )
        made.all(boot)

    def price_now(self) -> float | None:
        """Dollars an hour of the builder at spot, by EC2's word, where it is dearest among the zones; None when it does not say."""
        c = r.config(self._plan)
        wanted = {"InstanceTypes": [c.build.machine_type], "ProductDescriptions": ["Linux/UNIX"]}
        now = self.live(DeploymentRef("", "")).now()
        rows = self._session.call("ec2", "describe_spot_price_history", StartTime=now, **wanted).get("SpotPriceHistory") or []
        found = [float(row["SpotPrice"]) for row in rows if row.get("AvailabilityZone") in c.zones]
        return max(found, default=None)

    def _known_bucket(self) -> str:
        """The bucket of builds: the stack file's, the stack's own, or one that an earlier stack left; empty: there is none yet."""
        if self._bucket is None:
            asked = r.config(self._plan).bucket
            if asked == r.OWN:
                named = str(self._outputs.get("bucket") or "")
                asked = named or resolving.bucket(self._owned(), self._session)
            self._bucket = "" if asked == r.OWN else asked
        return self._bucket

    def _owned(self) -> Deployment:
        deployment = self._plan.deployment
        common = deployment.common.model_copy(update={"owner": self._owner})
        return type(deployment)(deployment.stack, deployment.target, common)


def _a_month(size: int, region: str) -> float | None:
    """Dollars that an object of that many bytes costs in a month."""
    from catalog.loader import Catalog

    price = Catalog.load().price("s3-standard", region=region)
    return round(size / (1 << 30) * price.usd, 4) if price is not None else None


def read(session: Session, bucket: str, key: str) -> str:
    """A small object's text; empty where there is none."""
    try:
        answer: dict[str, Any] = session.call("s3", "get_object", Bucket=bucket, Key=key)
    except NotThere:
        return ""
    return bytes(answer["Body"].read()).decode("utf-8", "replace")
