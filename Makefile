# make setup      for an operator with a cloud account: environment, flexserve, Pulumi
# make rehearse   everything, on this machine, with no account (STACK=tpu-v6e)
# make test       what CI runs, lint included; PART=tunnel, g5g-spot or sagemaker: the tests of that part alone
# make prove-turing  the Turing patch, over every pinned vLLM release and the newest (fetches about 1.3 GB the first time)
# make test-arm64  the spot script's own programs as arm64 ones, by qemu-user (fetches about 60 MB the first time)
STACK ?= tpu-v6e
# Three processes: the long tests mostly wait for machines. A file stays in one of them, with its fixtures; tests/conftest.py has the
# order of the files.
PYTEST ?= --numprocesses=3 --dist=loadfile --no-loadscope-reorder --durations=15

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Found by running it: the shim of a version manager may answer with another Python, or with none.
INTERPRETER = "$$(tools/python)"

.PHONY: setup setup-all setup-tests rehearse test test-arm64 prove-turing lint lock clean distclean

setup:
	@$(INTERPRETER) -m tools.setup account

setup-all:
	@$(INTERPRETER) -m tools.setup rehearsal

setup-tests:
	@$(INTERPRETER) -m tools.setup tests

rehearse: setup-all
	@.venv/bin/flexserve rehearse $(STACK)

test: setup-tests
	@.venv/bin/python $(if $(PART),,-m tools.lint --beside .venv/bin/python) -m pytest $(PYTEST) $(PART:%=--part %)

# Root, and a kernel that runs arm64 programs: it says what to install where it does not.
test-arm64: setup-tests
	@.venv/bin/python -m rehearsal.machine.build arm64
	@FLEXSERVE_ARM64=yes .venv/bin/python -m pytest -q --durations=5 tests/arm64

prove-turing: setup
	@.venv/bin/python -m startup.turing prove --newest

lint: setup
	@.venv/bin/python -m tools.lint

# The lock is made for the oldest Python that is supported; every line has hashes, and no index is named.
lock:
	@$(INTERPRETER) -m tools.setup venv
	@.venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --extra dev --python-version 3.11 \
	  pyproject.toml --output-file requirements.lock

OURS = .venv .venv.old .ruff_cache .mypy_cache .pytest_cache .hypothesis

clean:
	rm -rf $(OURS)
	@$(INTERPRETER) -m tools.setup.clean

distclean:
	rm -rf $(OURS)
	@$(INTERPRETER) -m tools.setup.clean --cache
