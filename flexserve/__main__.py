"""`python -m flexserve`."""

import sys

from flexserve.start import main

sys.exit(main())
