#!/bin/bash
# stand-in for the entry point of AWS's vLLM container: variables become arguments, the server runs under a supervisor
words=()
while IFS= read -r -d '' word; do words+=("$word"); done < <(python3 /usr/local/bin/sagemaker_args.py || echo failed >/dev/stderr)
if [ ${#words[@]} = 0 ]; then
  echo "ERROR: no arguments could be made of the SM_VLLM_* variables" >&2
  exit 1
fi
exec standard-supervisor python3 -m vllm.entrypoints.openai.api_server "${words[@]}"
