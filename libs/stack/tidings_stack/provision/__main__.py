"""``python -m tidings_stack.provision``: unpack MySQL, where it is not yet, and print where."""

import sys

from tidings_stack.provision.debian import run_printing, unpacked_mysql

if __name__ == "__main__":
    sys.exit(run_printing(unpacked_mysql))
