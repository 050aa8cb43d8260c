"""`python -m mcutrain`: the command mcutrain, for where its script is not on the PATH."""

from mcutrain.cli import main

if __name__ == "__main__":
    main()
