"""Registers the resources of one endpoint with Pulumi. Every argument is made in `resources.py` and `rights.py`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_aws as aws

from infra.access import SageMaker, to_output
from infra.clouds.aws import policies
from infra.clouds.aws.session import Session
from infra.clouds.sdk import lighten
from infra.targets.protocol import Billable, DeploymentRef, Machine
from infra.targets.sagemaker import building, rights, rules, verdicts
from infra.targets.sagemaker import resources as r
from infra.targets.sagemaker.live import Live
from infra.targets.sagemaker.names import Names
from startup import image
from verdict.errors import FlexserveError

if TYPE_CHECKING:
    from infra.kept import Kept
    from infra.plan import Plan
    from infra.targets.sagemaker.config import Config
    from infra.targets.sagemaker.moving import Serving
    from startup.render import Rendered

PACKAGES = ("appautoscaling", "budgets", "cloudwatch", "codebuild", "ecr", "iam", "s3", "sagemaker", "scheduler")
lighten(aws, *PACKAGES)

CREATE_LIMIT = "75m"  # SageMaker itself gives up before: after the start's time-out, or 30 minutes without a machine


@dataclass(frozen=True)
class Image:
    """What the endpoint runs: its address by digest, its repository's ARN, and what has to be there before."""

    uri: Any
    repository_arn: Any


class Stack(pulumi.ComponentResource):
    """Image, role, log, model, configuration, endpoint, scaling, clock.

    A change makes another model or configuration and moves the live endpoint to it; what was before goes last. An own repository
    and the log are left in the cloud by a delete: images took a build, and the log says why. `replace` has nothing to replace.
    """

    def __init__(self, name: str, plan: Plan, kept: Kept, boot: Rendered, *, replace: bool = False) -> None:  # noqa: ARG002
        super().__init__("flexserve:sagemaker:Stack", name)
        self._plan, self._kept, self._boot, self._names = plan, kept, boot, Names(kept.id)
        self._ref = DeploymentRef(plan.deployment.stack, kept.id)
        self._there = there(r.config(plan).region, self._ref)
        self._serving = serving(r.config(plan).region, self._ref, self._there)
        self._account: Any = aws.get_caller_identity_output(opts=pulumi.InvokeOptions(parent=self)).account_id
        built = self._image()
        log = aws.cloudwatch.LogGroup(
            "endpoint", **r.log_group(plan, kept, self._names.logs), opts=self._opts(retain_on_delete=True)
        )
        role_arn, grants = self._role_to_run(built)
        self.endpoint = self._endpoint(built, role_arn, [*grants, log, self._clock(), *self._alarm()])
        self._scaling()
        self.register_outputs({})

    def outputs(self) -> dict[str, Any]:
        """What the stack exports."""
        end = datetime.fromtimestamp(r.deadline(self._plan, self._kept), UTC)
        way_in = to_output(SageMaker(r.config(self._plan).region, self._names.base, r.served(self._plan)))
        return {
            **r.outputs(self._plan, self._kept, self._boot),
            "expires_at": self.endpoint.arn.apply(lambda _: f"{end:%Y-%m-%dT%H:%M:%SZ}"),  # told only once it was made
            "account": self._account,
            "image": self._image_uri,
            "access": self.endpoint.arn.apply(lambda _: way_in),
        }

    def _image(self) -> Image:
        """AWS's as it is, or the one that is built from it."""
        spec, base = self._plan.boot, rules.ecr(self._plan.boot.image)
        assert spec.sagemaker is not None and base is not None
        base_arn = rights.repository_arn(base["region"], base["account"], base["name"])
        if not spec.sagemaker.built:
            self._image_uri: Any = spec.image_reference
            return Image(spec.image_reference, base_arn)
        account = self._account
        uri = account.apply(lambda number: image.repository_uri(spec, number))
        named = account.apply(lambda number: rights.repository_arn(spec.sagemaker.region, number, spec.sagemaker.repository))
        own: list[pulumi.CustomResource] = []
        if r.config(self._plan).repository == r.OWN:
            made = r.repository(self._plan, self._kept)
            own.append(aws.ecr.Repository("images", **made, opts=self._opts(retain_on_delete=True)))
        digest = self._build(base_arn, named, uri, own)
        self._image_uri = pulumi.Output.all(uri, digest).apply(lambda parts: "@".join(parts))
        return Image(self._image_uri, named)

    def _build(self, base_arn: str, repository_arn: Any, uri: Any, own: list[pulumi.CustomResource]) -> Any:
        """The digest of the built image. What builds it costs nothing while it does not."""
        plan, kept, names, region = self._plan, self._kept, self._names, r.config(self._plan).region
        bucket, packed = self._bucket(), image.archive(self._boot.files)
        context = aws.s3.BucketObjectv2("context", **r.context_object(kept, packed, bucket), opts=self._opts())
        log = aws.cloudwatch.LogGroup("build", **r.log_group(plan, kept, names.build_logs), opts=self._opts())
        role = self._role("build", names.build, rights.CODEBUILD)
        location = pulumi.Output.concat(context.bucket, "/", context.key)
        policy = pulumi.Output.all(repository_arn, location).apply(
            lambda parts: rights.build(region, names, base_arn, parts[0], f"arn:aws:s3:::{parts[1]}")
        )
        grant = aws.iam.RolePolicy("build", name=names.build, role=role.name, policy=policy, opts=self._opts())
        project = aws.codebuild.Project(
            "image", **r.build_project(plan, kept, role.arn, location, uri), opts=self._opts(depends_on=[log, grant])
        )
        return pulumi.Output.all(project.name, context.key, grant.id, *(resource.id for resource in own)).apply(
            lambda parts: built(plan, parts[0])
        )

    def _bucket(self) -> Any:
        c = r.config(self._plan)
        if c.bucket != r.OWN:
            return c.bucket
        named = {**r.tags(self._plan, self._kept), "Name": self._names.base}
        bucket = aws.s3.Bucket("bucket", bucket=self._names.base, force_destroy=True, tags=named, opts=self._opts())
        closed = dict.fromkeys(("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"), True)
        aws.s3.BucketPublicAccessBlock("bucket", bucket=bucket.bucket, **closed, opts=self._opts())
        return bucket.bucket

    def _role_to_run(self, built: Image) -> tuple[Any, list[pulumi.Resource]]:
        """With it SageMaker runs the container, and frees what the endpoint is made of.

        The provider takes an endpoint in Deleting for gone, and the engine then deletes the role at once: so `down` has the
        endpoint deleted before (`CanHold`). Plain `pulumi destroy` cannot wait for it.
        """
        c, secret = r.config(self._plan), self._plan.deployment.common.secret
        if c.execution_role != r.OWN:
            return c.execution_role, []
        reads = self._kept.value("secret") if secret is not None and secret.grant == "own" else ""
        role = self._role("execution", self._names.run, rights.SAGEMAKER)
        policy = pulumi.Output.from_input(built.repository_arn).apply(
            lambda repository: rights.run(c.region, self._names, repository, reads)
        )
        grant = aws.iam.RolePolicy("execution", name=self._names.run, role=role.name, policy=policy, opts=self._opts())
        return role.arn, [grant]

    def _endpoint(self, built: Image, role_arn: Any, before: list[pulumi.Resource]) -> aws.sagemaker.Endpoint:
        plan, kept = self._plan, self._kept
        arguments = pulumi.Output.all(built.uri, role_arn).apply(lambda parts: r.model(plan, kept, *parts))
        container = aws.sagemaker.Model(
            "model",
            name=arguments["name"],
            execution_role_arn=role_arn,
            primary_container=arguments["primary_container"],
            tags=r.tags(plan, kept),
            opts=self._opts(depends_on=before, delete_before_replace=False),  # a name of ours would make the provider ask for it
        )
        now, c = self._serving, r.config(plan)
        count = None
        if now is not None and c.machines[0] < c.machines[1]:
            count = arguments["name"].apply(lambda name: r.machines(plan, name, now))
        config = aws.sagemaker.EndpointConfiguration(
            "config", **r.configuration(plan, kept, self._boot, container.name, count), opts=self._opts()
        )
        made = r.endpoint(plan, kept, config.name)
        made["name"] = made_way(c.region, self._there, made["name"], config.name)
        if now is not None:
            made["name"] = readied(c, self._ref, now, made["name"], config.name)
        limits = pulumi.CustomTimeouts(create=CREATE_LIMIT, update=CREATE_LIMIT, delete=CREATE_LIMIT)
        endpoint = aws.sagemaker.Endpoint("endpoint", **made, opts=self._opts(depends_on=before, custom_timeouts=limits))
        both: Any = pulumi.Output.all(config.name, endpoint.endpoint_config_name)
        since = now.at if now is not None else None
        both.apply(lambda names: moved(c.region, self._ref, names[0], names[1], since))
        return endpoint

    def _scaling(self) -> None:
        fewest, most = r.config(self._plan).machines
        if most <= fewest:
            return
        anew = {"replacement_trigger": r.config(self._plan).machine_type, "delete_before_replace": True}  # see `readied`
        target = aws.appautoscaling.Target(
            "machines", **r.scaling_target(self._plan, self._kept), opts=self._opts(depends_on=[self.endpoint], **anew)
        )
        made = r.scaling_policy(self._plan, self._kept)
        aws.appautoscaling.Policy("machines", **made, opts=self._opts(depends_on=[target], **anew))

    def _clock(self) -> aws.scheduler.Schedule:
        """The clock outside. It is there before anything bills, and goes only after it."""
        policy = rights.clock(r.config(self._plan).region, self._names, r.deadline(self._plan, self._kept))
        role = self._role("clock", self._names.clock, rights.SCHEDULER)
        grant = aws.iam.RolePolicy("clock", name=self._names.clock, role=role.name, policy=policy, opts=self._opts())
        return aws.scheduler.Schedule("clock", **r.schedule(self._plan, self._kept, role.arn), opts=self._opts(depends_on=[grant]))

    def _alarm(self) -> list[pulumi.Resource]:
        if r.config(self._plan).alarm is None:
            return []
        return [aws.budgets.Budget("alarm", **r.budget(self._plan, self._kept), opts=self._opts())]

    def _role(self, key: str, name: str, service: str) -> aws.iam.Role:
        about, trust = f"flexserve {self._plan.deployment.stack}", policies.trust(service)
        tags = r.tags(self._plan, self._kept)
        return aws.iam.Role(key, name=name, description=about, assume_role_policy=trust, tags=tags, opts=self._opts())

    def _opts(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)


async def built(plan: Plan, project: str) -> Any:
    """The digest of the image, built where it is not there yet. A preview only looks.

    An error is the program's, in its own words; the engine then makes nothing of the endpoint.
    """
    boot = plan.boot
    assert boot.sagemaker is not None
    wanted = building.Wanted(project, boot.sagemaker.repository, image.image_key(boot))
    session, loop = Session(boot.sagemaker.region), asyncio.get_running_loop()

    def say(text: str) -> None:
        loop.call_soon_threadsafe(pulumi.log.info, text)

    try:
        if pulumi.runtime.is_dry_run():
            return await asyncio.to_thread(building.find, session, wanted) or _unknown()
        return await asyncio.to_thread(building.ensure, session, wanted, say)
    except FlexserveError as error:
        raise pulumi.RunError(str(error)) from error


def there(region: str, ref: DeploymentRef) -> Machine | None:
    """The endpoint as it is before anything is changed; None also where it cannot be asked: that is left to the provider.

    One that is *Creating* is in no state, and the provider would find its name taken once all the rest was changed. An update ends
    here, before that; a preview says so.
    """
    try:
        found = Live(Session(region)).find(ref)
    except FlexserveError:
        return None
    if found is not None and found.cloud_state == "creating":
        error = verdicts.still_creating(found.name)
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(str(error))
        pulumi.log.warn(str(error))
    return found


def made_way(region: str, found: Machine | None, name: str, before: Any) -> Any:
    """The endpoint's name, once nothing of this name is in its way.

    An endpoint whose create failed is in no state: the provider would only find that the name is taken. It is deleted, `before`
    being there, in an update; a preview says so.
    """
    if found is None or not found.dead:
        return name
    pulumi.log.warn(f"endpoint {found.name} never served and never will: {found.dead}; it is deleted, and made anew")
    if pulumi.runtime.is_dry_run():
        return name

    async def away(_: Any) -> str:
        try:
            await asyncio.to_thread(Live(Session(region)).delete, Billable("endpoint", found.name, found.where))
        except FlexserveError as error:
            raise pulumi.RunError(str(error)) from error
        return name

    return pulumi.Output.from_input(before).apply(away)


def serving(region: str, ref: DeploymentRef, found: Machine | None) -> Serving | None:
    """What serves now; None where nothing does, or where it cannot be asked: then the provider cannot change it either."""
    if found is None or found.dead:
        return None
    try:
        return Live(Session(region)).serving(ref)
    except FlexserveError:
        return None


def readied(c: Config, ref: DeploymentRef, now: Serving, name: str, config: Any) -> Any:
    """The endpoint's name, once SageMaker takes its update to `config`.

    One that moves, for instance because it scales just now, is waited for. One that is to have another machine type is taken out
    of scaling; its target and policy are replaced with the type, after the update. A preview says so.
    """
    if now.moves_scaled(c.machine_type):
        pulumi.log.info(f"endpoint {name} does not scale while it gets machines of another type")
    if pulumi.runtime.is_dry_run():
        return name

    async def ready(wanted: str) -> str:
        if wanted != now.config:
            try:
                await asyncio.to_thread(Live(Session(c.region)).make_ready, ref, c.machine_type)
            except FlexserveError as error:
                raise pulumi.RunError(str(error)) from error
        return name

    return pulumi.Output.from_input(config).apply(ready)


async def moved(region: str, ref: DeploymentRef, wanted: str, has: str, since: datetime | None) -> str:
    """The configuration that the endpoint has. Raises `RunError` for another than the update, begun after `since`, was to give it.

    SageMaker took the update back, and the provider, which looks for InService alone, calls it done: the engine would then delete
    the configuration that serves, and nothing could change the endpoint any more. An error of the program keeps it. Source:
    terraform-provider-aws issues 46663 and 48997.
    """
    if pulumi.runtime.is_dry_run() or wanted == has:
        return has
    told: FlexserveError | None = None
    try:
        if since is not None:
            told = await asyncio.to_thread(Live(Session(region)).went_back, ref, wanted, since)
    except FlexserveError:
        told = None
    if told is None or type(told) is verdicts.EndpointFailed:  # no cause that is known
        told = verdicts.taken_back(Names(ref.id).base, has, told.why if told is not None else "")
    raise pulumi.RunError(str(told))


def _unknown() -> pulumi.Output[str]:
    """What a preview cannot know: the digest of an image that is not built yet."""
    loop = asyncio.get_running_loop()
    value, known, secret = loop.create_future(), loop.create_future(), loop.create_future()
    value.set_result("")
    known.set_result(False)
    secret.set_result(False)
    return pulumi.Output(set(), value, known, secret)
