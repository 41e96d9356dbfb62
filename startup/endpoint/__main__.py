"""`python3 -IB /opt/flexserve ENTRY-POINT [ARGUMENT …]`: this file lies there as `__main__.py`."""

import os
import sys

from startup.endpoint.entry import main

sys.exit(main(sys.argv[1:], os.environ))
