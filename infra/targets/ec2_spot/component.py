"""Registers the resources of one spot machine with Pulumi. Every argument is made in `resources.py`, `network.py`, `rights.py`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_aws as aws

from infra.access import Ssm, to_output
from infra.clouds.aws import policies
from infra.clouds.sdk import lighten
from infra.targets.ec2_spot import network as n
from infra.targets.ec2_spot import resources as r
from infra.targets.ec2_spot import rights
from infra.targets.ec2_spot.names import Names, provisioning

if TYPE_CHECKING:
    from infra.kept import Kept
    from infra.plan import Plan
    from startup.render import Rendered

PACKAGES = ("ec2", "iam", "s3", "scheduler", "ssm")
lighten(aws, *PACKAGES)

CREATE_LIMIT = "15m"  # a create that times out comes up unrecorded; EC2 answers a request for spot within seconds


class Stack(pulumi.ComponentResource):
    """Identity, network, bucket and script, machine, clock. `replace`: the operator gives up a live machine.

    An own bucket is left in the cloud by a delete: it may hold builds, which took an hour. What is left of it and empty,
    `flexserve down` deletes.
    """

    def __init__(self, name: str, plan: Plan, kept: Kept, boot: Rendered, *, replace: bool = False) -> None:
        super().__init__("flexserve:ec2_spot:Stack", name)
        self._plan, self._kept, self._names = plan, kept, Names(plan.boot.deployment_id)
        self._tags = r.tags(plan, kept)
        self._facts = r.outputs(plan, kept, boot)
        bucket = self._bucket()
        script = aws.s3.BucketObjectv2("script", **r.script_object(plan, boot, bucket), opts=self._opts())
        profile, grants = self._identity()
        subnet_id, group_id, way_out = self._network()
        self.vm = aws.ec2.Instance(
            "vm",
            **r.instance(plan, kept, boot, subnet_id=subnet_id, group_id=group_id, profile=profile),
            opts=self._vm_opts([script, *grants, *way_out], replace=replace),
        )
        aws.ssm.Association("script", **r.association(plan, boot, self.vm.id), opts=self._opts(depends_on=[script]))
        self._clock()
        self.register_outputs({})

    def outputs(self) -> dict[str, Any]:
        """What the stack exports."""
        region, end = r.config(self._plan).region, datetime.fromtimestamp(r.deadline(self._plan, self._kept), UTC)
        return {
            **self._facts,
            "instance_id": self.vm.id,
            "expires_at": self.vm.id.apply(lambda _: f"{end:%Y-%m-%dT%H:%M:%SZ}"),  # told only once the machine was made
            "provisioning": self.vm.instance_lifecycle.apply(provisioning),
            "access": self.vm.id.apply(lambda id_: to_output(Ssm(region=region, instance_id=id_))),
        }

    def _bucket(self) -> Any:
        c = r.config(self._plan)
        if c.bucket != r.OWN:
            return c.bucket
        named = {**self._tags, "Name": self._names.base}
        bucket = aws.s3.Bucket("bucket", bucket=self._names.base, tags=named, opts=self._opts(retain_on_delete=True))
        closed = dict.fromkeys(("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"), True)
        aws.s3.BucketPublicAccessBlock("bucket", bucket=bucket.bucket, **closed, opts=self._opts(retain_on_delete=True))
        return bucket.bucket

    def _identity(self) -> tuple[Any, list[pulumi.Resource]]:
        c, common, boot = r.config(self._plan), self._plan.deployment.common, self._plan.boot
        if c.instance_profile != r.OWN:
            return c.instance_profile, []
        assert boot.ec2 is not None
        secret = common.secret.name if common.secret is not None and common.secret.grant == "own" else None
        made = boot.ec2.build_key if boot.ec2.may_build else ""
        own = c.bucket == r.OWN
        policy = rights.machine(c.region, boot.ec2.bucket, boot.deployment_id, secret, own_bucket=own, made=made)
        role = self._role("machine", self._names.base, "ec2.amazonaws.com")
        grants: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment("ssm", role=role.name, policy_arn=rights.SSM_POLICY, opts=self._opts()),
            aws.iam.RolePolicy("machine", name=self._names.base, role=role.name, policy=policy, opts=self._opts()),
        ]
        profile = aws.iam.InstanceProfile("machine", name=self._names.base, role=role.name, tags=self._tags, opts=self._opts())
        return profile.name, grants

    def _role(self, key: str, name: str, service: str) -> aws.iam.Role:
        about = f"flexserve {self._plan.deployment.stack}"
        trust = policies.trust(service)
        return aws.iam.Role(key, name=name, description=about, assume_role_policy=trust, tags=self._tags, opts=self._opts())

    def _network(self) -> tuple[Any, Any, list[pulumi.Resource]]:
        c, base, tags = r.config(self._plan), self._names.base, self._tags
        zone = c.zones[0]
        if c.network != "own":
            group = aws.ec2.SecurityGroup("none", **n.no_way_in(base, c.network.vpc, tags), opts=self._opts())
            return c.network.subnets[zone], group.id, []
        vpc = aws.ec2.Vpc("network", **n.vpc(base, c.subnet_range, tags), opts=self._opts())
        subnet = aws.ec2.Subnet(f"subnet-{zone}", **n.subnet(base, c.subnet_range, zone, vpc.id, tags), opts=self._opts())
        group = aws.ec2.SecurityGroup("none", **n.no_way_in(base, vpc.id, tags), opts=self._opts())
        return subnet.id, group.id, self._way_out(vpc.id, subnet.id)

    def _way_out(self, vpc: Any, subnet: Any) -> list[pulumi.Resource]:
        c, base, tags = r.config(self._plan), self._names.base, self._tags
        zone, egress = c.zones[0], self._plan.deployment.common.egress
        if egress == "existing":
            return []
        internet = aws.ec2.InternetGateway("internet", **n.internet(base, vpc, tags), opts=self._opts())
        out = aws.ec2.RouteTable("out", **n.routes(base, vpc, tags, gateway=internet.id), opts=self._opts())
        tables, made = [out.id], []
        if egress == "nat":
            public = aws.ec2.Subnet(f"nat-{zone}", **n.subnet(base, c.subnet_range, zone, vpc, tags, nat=True), opts=self._opts())
            made.append(self._joined(f"nat-{zone}", public.id, out.id))
            address = aws.ec2.Eip("nat", **n.address(base, tags), opts=self._opts())
            nat = aws.ec2.NatGateway("nat", **n.nat(base, public.id, address.id, tags), opts=self._opts(depends_on=[internet]))
            inner = aws.ec2.RouteTable("nat", **n.routes(base, vpc, tags, nat=nat.id), opts=self._opts())
            tables.append(inner.id)
            made.append(self._joined(f"subnet-{zone}", subnet, inner.id))
        else:
            made.append(self._joined(f"subnet-{zone}", subnet, out.id))
        made.append(aws.ec2.VpcEndpoint("s3", **n.s3_endpoint(base, c.region, vpc, tables, tags), opts=self._opts()))
        return made

    def _joined(self, key: str, subnet: Any, table: Any) -> pulumi.Resource:
        joined: pulumi.Resource = aws.ec2.RouteTableAssociation(key, subnet_id=subnet, route_table_id=table, opts=self._opts())
        return joined

    def _clock(self) -> None:
        c = r.config(self._plan)
        role = self._role("clock", self._names.clock, "scheduler.amazonaws.com")
        policy = rights.clock(c.region, self._plan.boot.deployment_id)
        grant = aws.iam.RolePolicy("clock", name=self._names.clock, role=role.name, policy=policy, opts=self._opts())
        body = self.vm.id.apply(r.terminate_input)
        aws.scheduler.Schedule("clock", **r.schedule(self._plan, self._kept, role.arn, body), opts=self._opts(depends_on=[grant]))

    def _vm_opts(self, depends_on: list[pulumi.Resource], *, replace: bool) -> pulumi.ResourceOptions:
        """A machine that is replaced goes first: the quota is for one. Without consent nothing that replaces it is even seen."""
        return self._opts(
            depends_on=depends_on,
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create=CREATE_LIMIT),
            replace_on_changes=list(r.STOPPED_ONLY) if replace else [],
            ignore_changes=[] if replace else list(r.REPLACES_THE_MACHINE),
        )

    def _opts(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)
