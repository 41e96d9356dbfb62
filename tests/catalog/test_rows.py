"""The catalog: every row has a source, and a row that lacks one does not load."""

import pytest

from catalog import rows
from catalog.loader import Catalog, read
from verdict.errors import BadConfig

GOOD = """
[[price]]
item = "v6e"
provisioning = "flex_start"
regions = ["europe-west4"]
unit = "accelerator-hour"
usd = 1.35
source = "a price list"
date = 2026-08-01
evidence = "documented"
"""


def test_a_whole_row_loads():
    (row,) = read("prices", "price", rows.Price, GOOD)
    assert (row.item, row.usd, row.evidence) == ("v6e", 1.35, "documented")


@pytest.mark.parametrize("field", ["source", "date", "evidence", "usd", "unit"])
def test_a_row_without_a_field_does_not_load(field):
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(f"{field} ="))
    with pytest.raises(BadConfig, match=field):
        read("prices", "price", rows.Price, text)


@pytest.mark.parametrize("broken", ['source = ""', 'evidence = "guessed"', "colour = 3", "usd = 'cheap'"])
def test_a_wrong_field_does_not_load(broken):
    key = broken.split(" =")[0]
    text = "\n".join(line for line in GOOD.splitlines() if not line.startswith(f"{key} =")) + f"\n{broken}\n"
    with pytest.raises(BadConfig, match=r"catalog/prices\.toml"):
        read("prices", "price", rows.Price, text)


def test_rows_refer_to_rows_that_exist():
    catalog = Catalog.load()
    for machine in catalog.machine_types.values():
        assert machine.accelerator in catalog.accelerators
    for model in catalog.models.values():
        assert model.unquantized is None or model.unquantized in catalog.models
    for zone in catalog.zones:
        assert set(zone.provisioning) <= set(catalog.provisionings)
        assert set(zone.machine_types) <= set(catalog.machine_types)
        assert set(zone.accelerators) <= set(catalog.accelerators)
    for image in catalog.images:
        assert set(image.accelerators) <= set(catalog.accelerators)


def test_an_unknown_price_is_unknown():
    catalog = Catalog.load()
    assert catalog.price("v6e", region="mars-north1", provisioning="flex_start") is None
    assert catalog.price("v6e", region="europe-west4", provisioning="spot") is None
    assert catalog.price("v6e", region="europe-west4", provisioning="flex_start").usd == 1.35


def test_every_model_has_what_a_rule_would_pass_over_without():
    """A group that is too large for Turing is told by the query heads."""
    models = Catalog.load().models.values()
    assert [m.name for m in models if m.query_heads is None or not m.kv_layers] == []


def test_a_card_whose_backends_are_listed_has_those_of_its_encoders_listed():
    cards = Catalog.load().accelerators.values()
    assert [c.name for c in cards if bool(c.attention_backends) != bool(c.encoder_backends)] == []
