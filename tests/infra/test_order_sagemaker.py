"""In which order an endpoint's things are made and changed: what ends it comes before it."""

from __future__ import annotations

from typing import Any

from tests.infra.test_component_sagemaker import register

__all__ = ("register",)


def test_what_ends_it_is_there_before_it_bills_and_goes_after_it(register, monkeypatch):
    """The engine makes what something depends on before it, and deletes it after it."""
    from infra.targets.sagemaker import component

    real, before = component.aws.sagemaker.Endpoint, []

    def made(*arguments: Any, **keywords: Any) -> Any:
        before.extend(keywords["opts"].depends_on)
        return real(*arguments, **keywords)

    monkeypatch.setattr(component.aws.sagemaker, "Endpoint", made)
    register("target.alarm={usd: 100, mail: ops@acme.test}")
    assert {type(resource).__name__ for resource in before} == {"Schedule", "Budget", "LogGroup", "RolePolicy"}
