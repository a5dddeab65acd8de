"""Makes the socket of its directory the standard input and output of an MCP server, and becomes that server.

Standard library only. `python3 -I inside.py DIRECTORY COMMAND [ARGUMENT ...]`: the socket is DIRECTORY/s.
"""

import os
import socket
import sys


def main() -> None:
    """Connect, then run the command in the directory this was started in."""
    directory, command = sys.argv[1], sys.argv[2:]
    here = os.getcwd()
    os.chdir(directory)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.connect("s")
    os.chdir(here)
    os.dup2(link.fileno(), 0)
    os.dup2(link.fileno(), 1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    main()
