"""Makes a builder with everything around it, one call after another. What was made is found again by the id, also half-way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from infra.clouds.aws import errors, policies
from infra.clouds.aws.session import NotThere, Session
from infra.plan import Plan
from infra.targets.ec2_spot import builder_parts as b
from infra.targets.ec2_spot import network as n
from infra.targets.ec2_spot import resolving, rights
from infra.targets.ec2_spot import resources as r
from infra.targets.ec2_spot.config import Config
from infra.targets.ec2_spot.names import Names
from startup.render import Rendered
from verdict.errors import BadConfig, FlexserveError, NoAccess, NoCapacity

LATE = frozenset({"profile-not-ready", "role-not-ready"})  # IAM tells its news to the other services late
LATE_TRIES, LATE_S = 30, 2.0
QUOTA = (
    "ask for more vCPUs in Service Quotas, EC2: `All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests` (L-34B43A08) or "
    "`Running On-Demand Standard (…) instances` (L-1216C47A); or take a smaller target.build.machine_type"
)
T = TypeVar("T")


@dataclass
class Made:
    """One builder in the making. `say` is told of each try."""

    session: Session
    plan: Plan
    id: str
    owner: str
    bucket: str
    deadline: int
    say: Callable[[str], None]
    own_bucket: bool = False  # the bucket is the builder's own
    new_bucket: bool = False  # and not there yet
    image: str = ""  # an image that was chosen before; else what the stack file means today
    _subnets: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """The builder's own."""
        return Names(self.id)

    @property
    def config(self) -> Config:
        """The target, as far as the builder is concerned: its machine type and disk in place of the server's."""
        c = r.config(self.plan)
        image = self.image or c.host_image
        return c.model_copy(update={"machine_type": c.build.machine_type, "disk_gb": c.builder_gb, "host_image": image})

    def all(self, boot: Rendered) -> str:
        """Everything; the instance's id. Raises what AWS means; what was made by then stays."""
        image = resolving.host_image(self.config, self.session)
        root = str(self._call("ec2", "describe_images", ImageIds=[image])["Images"][0]["RootDeviceName"])
        self._script(boot)
        profile = self._profile()
        group = self._group()
        instance_id = self._machine(boot, image, root, group, profile)
        self._clock(instance_id)
        return instance_id

    @property
    def _tags(self) -> dict[str, str]:
        return b.tags(self.plan, self.id, self.owner, self.deadline, self.bucket)

    def _call(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        return self.session.call(service, operation, **params)

    def _script(self, boot: Rendered) -> None:
        if self.own_bucket and self.new_bucket:
            self._make_bucket()
        about = {"Bucket": self.bucket, "Key": self.names.script_key, "ContentType": "text/x-shellscript"}
        try:
            self._call("s3", "put_object", Body=boot.script, **about)
        except NotThere as error:
            raise BadConfig(
                f"flexserve:target.bucket: there is no bucket {self.bucket}", way_out="make it, or leave target.bucket out"
            ) from error

    def _make_bucket(self) -> None:
        """The same as the program's, with the tags by which a later `up` finds the builds."""
        region = self.session.region
        placed = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        closed = dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
        self._call("s3", "create_bucket", Bucket=self.bucket, **placed)
        self._call("s3", "put_public_access_block", Bucket=self.bucket, PublicAccessBlockConfiguration=closed)
        tagging = {"TagSet": b.tag_list({**self._tags, "Name": self.bucket})}
        self._call("s3", "put_bucket_tagging", Bucket=self.bucket, Tagging=tagging)

    def _profile(self) -> str:
        given = r.config(self.plan).instance_profile
        if given != r.OWN:
            return given
        name, key = self.names.base, self.plan.boot.ec2.build_key if self.plan.boot.ec2 else ""
        self._role(name, "ec2.amazonaws.com", rights.builder(self.bucket, self.id, key, own_bucket=self.own_bucket))
        self._call("iam", "attach_role_policy", RoleName=name, PolicyArn=rights.SSM_POLICY)
        self._call("iam", "create_instance_profile", InstanceProfileName=name, Tags=b.tag_list(self._tags))
        self._call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=name)
        return name

    def _role(self, name: str, service: str, policy: str) -> str:
        about = f"flexserve {self.plan.deployment.stack}, builder"
        made = self._call(
            "iam",
            "create_role",
            RoleName=name,
            Description=about,
            AssumeRolePolicyDocument=policies.trust(service),
            Tags=b.tag_list(self._tags),
        )
        self._call("iam", "put_role_policy", RoleName=name, PolicyName=name, PolicyDocument=policy)
        return str(made["Role"]["Arn"])

    def _group(self) -> str:
        """A group without any ingress rule, in the given network or one of its own. A new group lets everything out."""
        network = r.config(self.plan).network
        vpc = self._network() if network == "own" else network.vpc
        if network != "own":
            self._subnets.update(network.subnets)
        about = n.no_way_in(self.names.base, vpc, {})
        made = self._call(
            "ec2",
            "create_security_group",
            GroupName=about["name"],
            Description=about["description"],
            VpcId=vpc,
            TagSpecifications=b.tagged("security-group", self._tags),
        )
        return str(made["GroupId"])

    def _network(self) -> str:
        """A network with a way out and one subnetwork a zone: they are free."""
        c = r.config(self.plan)
        vpc = str(self._made("vpc", "create_vpc", "Vpc", "VpcId", CidrBlock=c.subnet_range))
        gateway = self._made("internet-gateway", "create_internet_gateway", "InternetGateway", "InternetGatewayId")
        self._call("ec2", "attach_internet_gateway", VpcId=vpc, InternetGatewayId=gateway)
        table = self._made("route-table", "create_route_table", "RouteTable", "RouteTableId", VpcId=vpc)
        self._call("ec2", "create_route", RouteTableId=table, DestinationCidrBlock=n.EVERYWHERE, GatewayId=gateway)
        for zone in c.zones:
            part = n.subnet(self.names.base, c.subnet_range, zone, vpc, {})["cidr_block"]
            subnet = self._made("subnet", "create_subnet", "Subnet", "SubnetId", VpcId=vpc, CidrBlock=part, AvailabilityZone=zone)
            self._call("ec2", "associate_route_table", RouteTableId=table, SubnetId=subnet)
            self._subnets[zone] = subnet
        return vpc

    def _made(self, kind: str, operation: str, key: str, id_: str, **params: Any) -> str:
        return str(self._call("ec2", operation, TagSpecifications=b.tagged(kind, self._tags), **params)[key][id_])

    def _machine(self, boot: Rendered, image: str, root: str, group: str, profile: str) -> str:
        """The first place that has one. Raises `NoCapacity` of the last, `NoAccess` for a quota with the builder's own way out."""
        c, last = r.config(self.plan), NoCapacity("no zone was asked")
        address = c.network == "own" or self.plan.deployment.common.egress == "address"
        for zone, spot in b.places(c):
            way = "spot" if spot else "on demand"
            self.say(f"asks for {c.build.machine_type}, {way}, in {zone}")
            args = b.instance(
                c,
                boot,
                self._tags,
                image=image,
                root=root,
                subnet=self._subnets[zone],
                group=group,
                profile=profile,
                spot=spot,
                address=address,
            )
            try:
                made = self._patient(lambda args=args: self._call("ec2", "run_instances", **args))  # type: ignore[misc]
                return str(made["Instances"][0]["InstanceId"])
            except NoCapacity as none:
                self.say(f"  {none.what}")
                last = none
            except NoAccess as error:
                if name_of(error) == "quota":
                    raise NoAccess(error.what, why=error.why, way_out=QUOTA) from error
                raise
        last.way_out = "try later, other target.zones, another target.build.machine_type, or target.build.on_demand: fall_back"
        raise last

    def _clock(self, instance_id: str) -> None:
        policy = rights.clock(self.session.region, self.id)
        role = self._role(self.names.clock, "scheduler.amazonaws.com", policy)
        args = b.schedule(self.plan, self.names, self.deadline, role, instance_id)
        self._patient(lambda: self._call("scheduler", "create_schedule", **args))

    def _patient(self, ask: Callable[[], T]) -> T:
        """Ask again while a service has not heard of a new role or profile."""
        for left in range(LATE_TRIES, -1, -1):
            try:
                return ask()
            except FlexserveError as error:
                if name_of(error) not in LATE or not left:
                    raise
            self.session.pause(LATE_S)
        raise AssertionError("the last try returns or raises")


def name_of(error: FlexserveError) -> str:
    """The row of `errors.toml` that an error came from; empty for one of ours or unknown words."""
    return next((row.name for row in errors.rows() if row.what == error.what), "")
