"""`python -m specmath`."""

from specmath.cli import main

main()
