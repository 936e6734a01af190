"""``vpo-lite COMMAND``.

Exit status: 0; 1 if the command failed while it worked, or a check found a fault; 2 if the request
was wrong; 130 if Ctrl-C stopped it (classroom: 0), 143 for SIGTERM and 129 for SIGHUP in train and
pretrain. A wrong request gets one line on stderr, and nothing is written.
"""

import atexit
import gc
import sys


def main(arguments=None) -> int:
    """Run one command; returns the exit status.

    Errors that a user can cause are one line. So are errors of code that a user named, with its
    file and line. Any other exception is a fault of the program, and stays a traceback.
    """
    if arguments is None:  # the process ends with this command
        atexit.register(gc.freeze)  # at its end Python would look for garbage in all modules: 2 s
    try:
        from . import commands  # here, since it takes a second in which Ctrl-C may come

        return commands.run(arguments)
    except ImportError as error:
        if error.name != "envs":
            raise
        print(f"vpo-lite: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vpo-lite: stopped", file=sys.stderr)
        return 130  # flags.STOPPED; nothing more is imported now
