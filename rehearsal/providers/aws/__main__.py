"""`python -m rehearsal.providers.aws`: the stand-in as a plugin that the engine starts itself; waits are real."""

import time

from rehearsal.providers.aws import make_servicer
from rehearsal.providers.server import run_as_plugin

run_as_plugin(make_servicer(time.sleep))
