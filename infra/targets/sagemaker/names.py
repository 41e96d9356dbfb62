"""Names and tags by which everything of a deployment is found again."""

from __future__ import annotations

from msgspec import Struct

from infra.clouds.aws.marks import PREFIX

VARIANT = "main"
LOGS = "/aws/sagemaker/Endpoints/"
"""What the names of endpoints' log groups begin with."""


class Names(Struct, frozen=True):
    """Everything is tagged with the random id, and has it in its name; `*` for an id stands for all of them."""

    id: str

    @property
    def base(self) -> str:
        """The name of the endpoint, its schedule, repository, build project and own bucket."""
        return f"{PREFIX}{self.id}"

    @property
    def each(self) -> str:
        """What names begin with that are made anew at every change: models and configurations."""
        return f"{self.base}-"

    @property
    def run(self) -> str:
        """The role with which SageMaker runs the container."""
        return f"{self.base}-run"

    @property
    def build(self) -> str:
        """The role with which CodeBuild builds the image."""
        return f"{self.base}-build"

    @property
    def clock(self) -> str:
        """The role with which the schedule ends the endpoint."""
        return f"{self.base}-clock"

    @property
    def logs(self) -> str:
        """The endpoint's log group: SageMaker's own name for it."""
        return f"{LOGS}{self.base}"

    @property
    def build_logs(self) -> str:
        """The build's log group."""
        return f"/aws/codebuild/{self.base}"

    @property
    def resource(self) -> str:
        """What scales, in Application Auto Scaling's spelling."""
        return f"endpoint/{self.base}/variant/{VARIANT}"

    def context(self, digest: str) -> str:
        """The object that holds what an image is built from."""
        return f"{self.id}/context-{digest[:12]}.zip"
