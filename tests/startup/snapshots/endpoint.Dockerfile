# flexserve: rendered from a plan; change the stack file, not this.
FROM 763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
COPY flexserve /opt/flexserve
# The patch finds its place by what vLLM's code does; a vLLM that it does not know ends the build.
RUN cd /opt/flexserve && python3 -B -m startup.turing apply 2>&1 && python3 -B -m startup.turing check || \
  { echo "flexserve: the Turing patch does not know this vLLM, see above"; exit 1; }
# Without a card: what torch itself was built for. And the entry point that the last line counts on.
RUN cd /opt/flexserve && python3 -B -m startup.endpoint.arch 7.5 && test -x /usr/local/bin/sagemaker_entrypoint.sh
# What a later stack knows it by (target.image_source: own).
LABEL flexserve.turing=1 flexserve.secret=by-name flexserve.card=7.5 \
  flexserve.base=763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef flexserve.key=0123456789ab-patch1-HASH
# Reads the secret that FLEXSERVE_SECRET_ARN names, where it is set; then it is AWS's own entry point, with the same arguments.
ENTRYPOINT ["python3", "-IB", "/opt/flexserve", "/usr/local/bin/sagemaker_entrypoint.sh"]
