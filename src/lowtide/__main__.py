"""`python -m lowtide`."""

from lowtide.cli import main

main()
