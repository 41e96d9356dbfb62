"""EC2's forecast of where spot capacity is: the spot placement score of each zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infra.clouds.aws.session import Session
    from infra.places import Place

ENOUGH = 3  # types: with fewer the score is always low (EC2 API, GetSpotPlacementScores)


def scores(session: Session, places: Sequence[Place]) -> Mapping[str, int]:
    """By the name of a spot place, 1 to 10. Nothing is asked where there is no choice between zones."""
    spot = [place for place in places if place.way == "spot"]
    if len({place.zone for place in spot}) < 2:
        return {}
    answer = session.call(
        "ec2",
        "get_spot_placement_scores",
        InstanceTypes=types(tuple(dict.fromkeys(place.size for place in spot))),
        TargetCapacity=1,
        SingleAvailabilityZone=True,
        RegionNames=[session.region],
    )
    by_id = {str(row["AvailabilityZoneId"]): int(row["Score"]) for row in answer.get("SpotPlacementScores") or []}
    zones = session.call("ec2", "describe_availability_zones").get("AvailabilityZones") or []
    by_zone = {str(zone["ZoneName"]): by_id[str(zone["ZoneId"])] for zone in zones if str(zone["ZoneId"]) in by_id}
    return {place.name: by_zone[place.zone] for place in spot if place.zone in by_zone}


def types(wanted: Sequence[str]) -> list[str]:
    """The types that are wanted, and where they are few the others that have the same card."""
    from catalog.loader import Catalog

    rows = Catalog.load().machine_types
    cards = {rows[name].accelerator for name in wanted if name in rows}
    others = [row.name for row in rows.values() if row.cloud == "aws" and row.accelerator in cards and row.name not in wanted]
    return [*wanted, *others[: max(0, ENOUGH - len(wanted))]]
