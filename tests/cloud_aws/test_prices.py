"""The local AWS bills what the catalog says."""

from typing import Any

import pytest

from catalog.loader import Catalog
from rehearsal.cloud.aws import LocalAwsCloud
from rehearsal.prices import aws_catalog_price
from tests.cloud_aws.conftest import World

HERE = {"region": "us-east-1", "where": "us-east-1a"}
DISK = {"disk_type": "gp3", "size_gb": 100, "iops": 3000, "throughput": 125}


@pytest.mark.parametrize(
    ("kind", "attributes", "a_month"),
    [
        ("volume", DISK, 8.0),
        ("volume", DISK | {"iops": 6000}, 8.0 + 15.0),
        ("volume", DISK | {"throughput": 500}, 8.0 + 15.0),
        ("bucket", {"bytes": 10 * 1024**3}, 0.23),
        ("address", {}, 0.005 * 730),
        ("nat", {}, 0.045 * 730),
        ("volume", DISK | {"disk_type": "io2"}, None),
        ("secret", {}, None),
        ("instance", {"machine_type": "g5g.16xlarge", "provisioning_model": "spot"}, None),
    ],
)
def test_by_the_month(kind: str, attributes: dict[str, Any], a_month: float | None) -> None:
    found = aws_catalog_price(Catalog.load())(kind, attributes | HERE)
    assert found is None if a_month is None else found == pytest.approx(a_month / 730)


def test_an_hour_of_a_spot_machine_with_its_disk_and_address() -> None:
    catalog = Catalog.load()
    with LocalAwsCloud(price=aws_catalog_price(catalog)) as cloud:
        vm = World(cloud, []).running()
        before = cloud.ledger.total()
        cloud.clock.advance(3600)
        spot = catalog.price("g5g.xlarge", region="us-east-1", provisioning="spot")
        assert spot is not None and vm
        assert cloud.ledger.total() - before == pytest.approx(spot.usd + 60 * 0.08 / 730 + 0.005, rel=0.01)
