"""Registers the resources of one flex-start VM with Pulumi. Every argument is made in `resources.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_gcp as gcp

from infra.clouds.sdk import lighten
from infra.targets.gce_flex import resources as r
from infra.targets.gce_flex.names import provisioning

if TYPE_CHECKING:
    from infra.kept import Kept
    from infra.plan import Plan
    from startup.render import Rendered

PACKAGES = ("compute", "iap", "secretmanager", "serviceaccount")
lighten(gcp, *PACKAGES)

CREATE_LIMIT = "30m"  # the provider's own is 20; a create that times out comes up unrecorded


class Stack(pulumi.ComponentResource):
    """Identity, one-secret grant, network, way out, firewall, VM, tunnel grants. `replace`: the operator gives up a live VM.

    A VM that moves to another region with the operator's consent goes after its new network is there, and before its old one:
    the names on an own network carry the region, so both may exist. The provider's own order would delete the network first.
    """

    def __init__(self, name: str, plan: Plan, kept: Kept, boot: Rendered, *, replace: bool = False) -> None:
        super().__init__("flexserve:gce_flex:Stack", name)
        self._facts = r.outputs(plan, kept, boot)
        self._window = timedelta(seconds=plan.deployment.common.window)
        email = self._identity(plan)
        grants = self._secret_grant(plan, email)
        self._move = {"delete_before_replace": False} if r.config(plan).network == "own" else {}
        network, subnetwork = self._network(plan)
        rules = [
            gcp.compute.Firewall(key, **args, opts=self._opts(**self._move)) for key, args in r.firewalls(plan, network).items()
        ]
        way_out = self._way_out(plan, network, subnetwork)
        self.vm = gcp.compute.Instance(
            "vm",
            **r.instance(plan, kept, boot, subnetwork_id=subnetwork, email=email),
            opts=self._vm_opts([*grants, *rules, *way_out], replace=replace),
        )
        for key, args in r.tunnel_grants(plan, self.vm.name).items():
            gcp.iap.TunnelInstanceIAMMember(f"tunnel-{key}", **args, opts=self._opts(replace_with=[self.vm]))
        self.register_outputs({})

    def outputs(self) -> dict[str, Any]:
        """What the stack exports."""
        return {
            **self._facts,
            "expires_at": self.vm.creation_timestamp.apply(self._end),
            "provisioning": self.vm.scheduling.apply(lambda s: provisioning(s.provisioning_model or "")),
        }

    def _identity(self, plan: Plan) -> Any:
        existing = r.config(plan).service_account
        if existing != "own":
            return existing
        return gcp.serviceaccount.Account("identity", **r.service_account(plan), opts=self._opts()).email

    def _secret_grant(self, plan: Plan, email: Any) -> list[pulumi.Resource]:
        args = r.secret_grant(plan, pulumi.Output.concat("serviceAccount:", email))
        return [gcp.secretmanager.SecretIamMember("secret", **args, opts=self._opts())] if args else []

    def _network(self, plan: Plan) -> tuple[Any, Any]:
        if r.config(plan).network != "own":
            return r.existing_network(plan)
        network = gcp.compute.Network("network", **r.network(plan), opts=self._opts(**self._move))
        subnetwork = gcp.compute.Subnetwork("subnetwork", **r.subnetwork(plan, network.id), opts=self._opts(**self._move))
        return network.id, subnetwork.id

    def _way_out(self, plan: Plan, network: Any, subnetwork: Any) -> list[pulumi.Resource]:
        if plan.deployment.common.egress != "nat":
            return []
        router = gcp.compute.Router("router", **r.router(plan, network), opts=self._opts(**self._move))
        nat = gcp.compute.RouterNat("nat", **r.nat(plan, router.name, subnetwork), opts=self._opts(**self._move))
        return [router, nat]

    def _vm_opts(self, depends_on: list[pulumi.Resource], *, replace: bool) -> pulumi.ResourceOptions:
        """One accelerator cannot be held twice: a replaced VM goes first. Without consent nothing that replaces it is even seen."""
        return self._opts(
            depends_on=depends_on,
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create=CREATE_LIMIT),
            replace_on_changes=list(r.STOPPED_ONLY) if replace else [],
            ignore_changes=[] if replace else list(r.REPLACES_THE_MACHINE),
        )

    def _opts(self, **options: Any) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, **options)

    def _end(self, created: str) -> str:
        """RFC 3339, UTC. Counted from creation: the cloud counts from when the VM runs, some minute later, and does not tell."""
        end = datetime.fromisoformat(created).astimezone(UTC) + self._window
        return end.strftime("%Y-%m-%dT%H:%M:%SZ")
