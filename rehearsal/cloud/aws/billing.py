"""What bills, read from the state itself after every change: nothing that a call made is forgotten, whoever answered it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.cloud.aws.ec2 import bodies
from rehearsal.cloud.aws.state import State


@dataclass(frozen=True)
class Bill:
    """One thing that bills now. `attributes` are what its price depends on."""

    kind: str
    name: str
    where: str
    attributes: Mapping[str, object] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """As the ledger knows it."""
        return self.kind, self.name, self.where


def settle(state: State) -> None:
    """Bring the ledger in line with the state. Called under the lock.

    A thing whose price changed (a resized volume, a bucket that grew) ends and begins anew.
    """
    now = {bill.key: bill for bill in census(state)}
    for key, before in list(state.billed.items()):
        if key not in now or now[key].attributes != before.attributes:
            state.ledger.deleted(*key)
            del state.billed[key]
    for key, bill in now.items():
        known = state.billed.get(key)
        if known is None:
            state.ledger.created(*key, {**bill.attributes, "region": state.region}, bill.labels)
        elif known.labels != bill.labels:
            state.ledger.relabelled(*key, bill.labels)
        state.billed[key] = bill


def census(state: State) -> Iterator[Bill]:
    """Everything that bills at this moment."""
    yield from _instances(state)
    yield from _volumes(state)
    yield from _snapshots(state)
    yield from _addresses(state)
    yield from _network(state)
    yield from _stored(state)
    yield from _endpoints(state)
    yield from _images(state)
    yield from _watched(state)


def _instances(state: State) -> Iterator[Bill]:
    for instance in bodies.every(state):
        if instance.state == "running":
            model = "spot" if instance.lifecycle == "spot" else "on_demand"
            attributes = {"machine_type": instance.instance_type, "provisioning_model": model}
            yield Bill("instance", instance.id, str(instance.availability_zone), attributes, bodies.tags(instance))


def _volumes(state: State) -> Iterator[Bill]:
    for volume in state.ec2.volumes.values():
        attributes = {
            "disk_type": volume.volume_type,
            "size_gb": int(volume.size),
            "iops": int(volume.iops or 0),
            "throughput": int(volume.throughput or 0),
        }
        yield Bill("volume", volume.id, volume.zone.name, attributes, bodies.tags(volume))


def _snapshots(state: State) -> Iterator[Bill]:
    """Those of the account; Amazon's images have their own."""
    for snapshot in state.ec2.snapshots.values():
        if snapshot.owner_id == state.account:
            yield Bill("snapshot", snapshot.id, state.region, {"size_gb": int(snapshot.volume.size)}, bodies.tags(snapshot))


def _addresses(state: State) -> Iterator[Bill]:
    """Public IPv4: every one that is in use, and every elastic one whether it is or not."""
    elastic = {address.public_ip for address in state.ec2.addresses}
    for eni in state.ec2.enis.values():
        owner = eni.instance
        if eni.public_ip and eni.public_ip not in elastic and owner is not None and owner.state in ("pending", "running"):
            yield Bill("address", eni.public_ip, state.region, {}, bodies.tags(owner))
    for address in state.ec2.addresses:
        yield Bill("address", address.public_ip, state.region, {"elastic": True}, bodies.tags(address))


def _network(state: State) -> Iterator[Bill]:
    for nat in state.ec2.nat_gateways.values():
        if nat.state not in ("deleting", "deleted"):
            yield Bill("nat", nat.id, state.region, {}, bodies.tags(nat))
    for end in state.ec2.vpc_end_points.values():
        if end.vpc_endpoint_type == "Interface" and end.state != "deleted":
            yield Bill("endpoint", end.id, state.region, {}, bodies.tags(end))


def _stored(state: State) -> Iterator[Bill]:
    for bucket in state.moto.backend("s3").buckets.values():
        size = sum(key.size for key in _keys(bucket))
        if size:
            yield Bill("bucket", bucket.name, bucket.region_name, {"bytes": size}, _bucket_tags(state, bucket))
    for secret in state.moto.backend("secretsmanager").secrets.values():
        if not secret.is_deleted():
            yield Bill("secret", secret.name, state.region, {}, {t["Key"]: t["Value"] for t in secret.tags or []})


def _endpoints(state: State) -> Iterator[Bill]:
    """The instances of endpoints, from when they are there until they are gone."""
    for endpoint in state.sagemaker.endpoints.values():
        for fleet in endpoint.fleets:
            attributes = {"machine_type": fleet.variant["InstanceType"], "provisioning_model": "on_demand"}
            if "VolumeSizeInGB" in fleet.variant:
                attributes["volume_gb"] = fleet.variant["VolumeSizeInGB"]
            for instance in fleet.instances:
                name = f"{endpoint.name}/{instance.id}"
                yield Bill("endpoint_instance", name, state.region, attributes, state.sagemaker.tags.get(endpoint.arn, {}))


def _images(state: State) -> Iterator[Bill]:
    """What is stored in ECR: a layer that several images share is stored once, which is not told apart here."""
    for repository in state.ecr.repositories.values():
        size = sum(manifest.size for manifest in state.ecr.manifests(repository.name, state.account))
        if size:
            yield Bill("repository", repository.name, state.region, {"bytes": size}, repository.tags)


def _watched(state: State) -> Iterator[Bill]:
    """Logs that hold something, and alarms."""
    for group in state.logs.groups.values():
        if group.bytes:
            yield Bill("log_group", group.name, state.region, {}, group.tags)
    for name, alarm in state.watching.alarms.items():
        yield Bill("alarm", name, state.region, {}, state.watching.tags.get(alarm["AlarmArn"], {}))


def _keys(bucket: Any) -> Iterator[Any]:
    """Every object that is stored, all versions; a delete marker has no size."""
    for name in bucket.keys:
        yield from (key for key in bucket.keys.getlist(name) if hasattr(key, "contentsize"))


def _bucket_tags(state: State, bucket: Any) -> dict[str, str]:
    return dict(state.moto.backend("s3").tagger.get_tag_dict_for_resource(bucket.arn))
