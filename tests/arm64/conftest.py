"""Not in `make test`: these need qemu-user and a root of arm64 packages (`make test-arm64`)."""

import os

collect_ignore_glob = [] if os.environ.get("FLEXSERVE_ARM64") == "yes" else ["test_*.py"]
