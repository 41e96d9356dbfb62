"""EC2 as one instance sees it: the metadata tree, keys of its role, and the cloud's API under its real names."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rehearsal.cloud.aws.call import Json
from rehearsal.cloud.aws.ec2 import bodies
from rehearsal.cloud.aws.http import HttpAnswer, HttpRequest, request
from rehearsal.cloud.aws.identity import Keys
from rehearsal.cloud.aws.roles import Role
from rehearsal.cloud.aws.state import State
from rehearsal.contracts import Ec2Answer

RENEWED_S = 3600.0
"""Keys are made anew this long before they expire."""


class GuestView:
    """A `rehearsal.contracts.Ec2Guest`. `advice_at` and `notice` are set when the cloud wants the instance back."""

    def __init__(self, state: State, instance_id: str, front: Callable[[HttpRequest], HttpAnswer]) -> None:
        self._state, self._id, self._front = state, instance_id, front
        self._keys: Keys | None = None
        self._keys_role = ""
        self.advice_at: float | None = None
        self.notice_at: float | None = None
        self.ends_at: float | None = None

    def _instance(self) -> Any:
        instance = bodies.find(self._state, self._id)
        if instance is None:
            raise LookupError(f"the instance {self._id} is gone")
        return instance

    def user_data(self) -> bytes:
        """What the instance was created with, decoded. Raises LookupError once it is gone."""
        with self._state.lock:
            data = self._instance().user_data
        if not data:
            return b""
        return base64.b64decode(str(data))

    def metadata(self) -> Mapping[str, object]:
        """The tree below `/latest/`. Raises LookupError once the instance is gone."""
        with self._state.lock:
            instance = self._instance()
            document = self._document(instance)
            return {
                "meta-data": self._meta(instance),
                "dynamic": {"instance-identity": {"document": json.dumps(document, indent=2)}},
            }

    def _meta(self, instance: Any) -> Json:
        zone, nic = str(instance.availability_zone), instance.nics[0]
        names = {z.name: z.zone_id for z in self._state.ec2.describe_availability_zones()}
        groups = [g.name for g in nic.group_set]
        interface: Json = {
            "device-number": "0",
            "interface-id": nic.id,
            "local-ipv4s": str(nic.private_ip_address),
            "mac": nic.mac_address,
            "owner-id": self._state.account,
            "security-groups": "\n".join(groups),
            "security-group-ids": "\n".join(g.id for g in nic.group_set),
            "subnet-id": nic.subnet.id,
            "subnet-ipv4-cidr-block": nic.subnet.cidr_block,
            "vpc-id": nic.subnet.vpc_id,
        }
        tree: Json = {
            "ami-id": instance.image_id,
            "ami-launch-index": "0",
            "block-device-mapping": {"ami": "sda1", "root": instance.root_device_name},
            "hostname": instance.private_dns_name,
            "instance-action": "none",
            "instance-id": instance.id,
            "instance-life-cycle": instance.lifecycle or "on-demand",
            "instance-type": instance.instance_type,
            "local-hostname": instance.private_dns_name,
            "local-ipv4": str(nic.private_ip_address),
            "mac": nic.mac_address,
            "network": {"interfaces": {"macs": {nic.mac_address: interface}}},
            "placement": {"availability-zone": zone, "availability-zone-id": names.get(zone, ""), "region": self._state.region},
            "profile": "default-hvm",
            "reservation-id": self._reservation(),
            "security-groups": "\n".join(groups),
            "services": {"domain": "amazonaws.com", "partition": "aws"},
        }
        if instance.public_ip_address:
            tree["public-ipv4"] = interface["public-ipv4s"] = instance.public_ip_address
            tree["public-hostname"] = interface["public-hostname"] = instance.public_dns_name or ""
        if instance.metadata_options.instance_metadata_tags == "enabled":
            tree["tags"] = {"instance": bodies.tags(instance)}
        return {**tree, **self._identity(instance), **self._reclaim()}

    def _reservation(self) -> str:
        return next((r.id for r in self._state.ec2.reservations.values() if any(i.id == self._id for i in r.instances)), "")

    def _reclaim(self) -> Json:
        """Rebalance advice and notice, once they were given."""
        tree, now = Json(), self._state.clock.now()
        if self.advice_at is not None and now >= self.advice_at:
            advice = {"noticeTime": _zulu(self.advice_at)}
            tree["events"] = {"recommendations": {"rebalance": json.dumps(advice)}}
        if self.notice_at is not None and self.ends_at is not None and now >= self.notice_at:
            action = {"action": "terminate", "time": _zulu(self.ends_at)}
            tree["spot"] = {"instance-action": json.dumps(action), "termination-time": _zulu(self.ends_at)}
        return tree

    def _identity(self, instance: Any) -> Json:
        """The role's keys; nothing without a profile, or with one that is not in force yet."""
        role, arn = self._role(instance)
        if role is None:
            return {}
        keys = self._fresh(role)
        document = {
            "Code": "Success",
            "LastUpdated": _zulu((keys.expires_at or 0) - 6 * 3600),
            "Type": "AWS-HMAC",
            "AccessKeyId": keys.key_id,
            "SecretAccessKey": keys.secret,
            "Token": keys.token,
            "Expiration": _zulu(keys.expires_at or 0),
        }
        info = {
            "Code": "Success",
            "LastUpdated": document["LastUpdated"],
            "InstanceProfileArn": arn,
            "InstanceProfileId": "AIPAFLEXSERVE",
        }
        return {"iam": {"info": json.dumps(info, indent=2), "security-credentials": {role.name: json.dumps(document, indent=2)}}}

    def _role(self, instance: Any) -> tuple[Role | None, str]:
        associations = self._state.ec2.iam_instance_profile_associations
        found = next((a for a in associations.values() if a.instance.id == instance.id), None)
        if found is None:
            return None, ""
        return self._state.roles.of_profile(found.iam_instance_profile.name), str(found.iam_instance_profile.arn)

    def role(self) -> Role | None:
        """The role that the instance has now. Called under the lock."""
        instance = bodies.find(self._state, self._id)
        return None if instance is None else self._role(instance)[0]

    def _fresh(self, role: Role) -> Keys:
        keys = self._keys
        if keys is None or self._keys_role != role.name or (keys.expires_at or 0) - self._state.clock.now() < RENEWED_S:
            keys = self._keys = self._state.credentials.issue(role.name, role.id, self._id, self._id)
            self._keys_role = role.name
        return keys

    def _document(self, instance: Any) -> Json:
        return {
            "accountId": self._state.account,
            "architecture": instance.architecture,
            "availabilityZone": instance.availability_zone,
            "imageId": instance.image_id,
            "instanceId": instance.id,
            "instanceType": instance.instance_type,
            "pendingTime": instance.launch_time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "privateIp": instance.private_ip_address,
            "region": self._state.region,
            "version": "2017-09-30",
        }

    def service(self, host: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Ec2Answer:
        """The cloud's own API under its real name, through the same checks and the same log as over HTTP."""
        made = request(method, path, {"host": host, **{k.lower(): v for k, v in headers.items()}}, body)
        answer = self._front(made)
        return Ec2Answer(answer.status, dict(answer.headers), answer.body)

    def powered_off(self) -> None:
        """A real shutdown inside."""
        from rehearsal.cloud.aws.ec2 import lifecycle

        lifecycle.powered_off(self._state, self._id)


def _zulu(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
