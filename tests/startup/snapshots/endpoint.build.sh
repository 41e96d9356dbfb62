#!/bin/bash
# flexserve: builds AWS's container with what this project adds, and pushes it. May be run again at any time.
# FLEXSERVE_REPOSITORY is the repository's URI without a tag.
set -euo pipefail

export DOCKER_BUILDKIT=0                 # one image with Docker's own manifest: SageMaker takes no index
export BUILDX_NO_DEFAULT_ATTESTATIONS=1  # the same, where Docker has BuildKit alone

readonly BASE=763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef REGION=us-east-2 ENTRY=/usr/local/bin/sagemaker_entrypoint.sh
readonly IMAGE="${FLEXSERVE_REPOSITORY:?the project sets it}":0123456789ab-patch1-HASH

login() { # to AWS's registry and to ours
  local registry
  for registry in "${BASE%%/*}" "${IMAGE%%/*}"; do
    aws ecr get-login-password --region "$REGION" | docker login --username AWS --password-stdin "$registry"
  done
}

build() {
  if docker manifest inspect "$IMAGE" >/dev/null 2>&1; then
    echo "flexserve: $IMAGE is there already"
    return
  fi
  docker pull --quiet "$BASE"
  local starts
  starts=$(docker image inspect --format '{{join .Config.Entrypoint " "}}' "$BASE")
  if [ "$starts" != "$ENTRY" ]; then
    echo "flexserve: the base image starts with '$starts', not with $ENTRY"
    return 1
  fi
  docker build --tag "$IMAGE" .
  docker push --quiet "$IMAGE"
}

check() {
  if [ "${CODEBUILD_BUILD_SUCCEEDING:-1}" != 1 ]; then # this step runs after a build that failed, too
    return 1
  fi
  local manifest
  manifest=$(docker manifest inspect "$IMAGE")
  if grep -q '"manifests"' <<<"$manifest" || ! grep -qF '"mediaType": "application/vnd.docker.distribution.manifest.v2+json"' <<<"$manifest"; then
    echo "flexserve: $IMAGE is no single image with Docker's own manifest, and SageMaker takes no other"
    return 1
  fi
  echo "flexserve: $IMAGE is ready"
}

"$1"
