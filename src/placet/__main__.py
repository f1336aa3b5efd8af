"""``python -m placet`` is the command line."""

from placet.cli.main import main

if __name__ == "__main__":
    main()
