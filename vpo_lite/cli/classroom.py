"""``vpo-lite classroom``, ``doctor``, ``lab`` and ``notebooks``: what a class needs."""

import sys

from ..checks import shown
from ..classroom import notebooks, serve
from ..markup import count
from ..messages import command
from .flags import Command, Wrong, add_number, at_home, bars, path, requests

BROWSER = ("auto", "yes", "no")


def _checked_port(port: int) -> int:
    if not 1 <= port <= 65535:
        raise Wrong(f"--port {shown(port)}: must be 1 to 65535")
    return port


def _add_browser(made) -> None:
    help = "open a browser window: yes, no, or auto: where there is a display (default: auto)"
    made.add_argument("--browser", choices=BROWSER, default="auto", help=help)


# --- doctor ---------------------------------------------------------------------------------------


def doctor_flags(made, arguments) -> None:
    made.add_argument(
        "--class",
        dest="for_a_class",
        action="store_true",
        help="check what a class needs, the day before; takes less than a minute",
    )


def doctor(options) -> int:
    from .machine import examine

    return _check_class() if options.for_a_class else examine()


def _check_class() -> int:
    from ..classroom.check import CHECKS

    failed, tqdm = 0, bars()
    bar = tqdm(CHECKS.items(), unit="check", leave=False, bar_format="{desc} ({n}/{total})")
    for name, check in bar:
        bar.set_description_str(f"checking: {name}", refresh=True)
        found = check()
        failed += not found.enough
        sign = "[+] ok  " if found.enough else "[!] FAIL"
        cure = "" if found.enough else f"; cure: {found.cure}"
        tqdm.write(f"{sign} {name}: {found.value}{cure}")
    print("ready for a class" if not failed else f"{failed} of {len(CHECKS)} checks failed")
    return 1 if failed else 0


# --- the notebooks --------------------------------------------------------------------------------


def lab_flags(made, arguments) -> None:
    made.add_argument(
        "folder",
        nargs="?",
        type=path,
        metavar="FOLDER",
        help="folder with notebooks, as `vpo-lite notebooks copy` makes it (default: the "
        "repository's own)",
    )
    add_number(
        made,
        "--port",
        f"port of the server (default: {serve.LAB_PORT}, or the next free one)",
        default=serve.LAB_PORT,
    )
    _add_browser(made)


def lab(options) -> int:
    from .machine import start_jupyter

    with requests():
        return start_jupyter(options.folder, _checked_port(options.port), options.browser)


def _copy_flags(made, arguments) -> None:
    made.add_argument("destination", type=path, metavar="DEST", help="a new or an empty folder")


def _copy(options) -> int:
    destination = options.destination
    with requests():
        written = notebooks.copy(destination)
    said = f"{count(len(written), 'file')} copied to" if written else "all files are already in"
    print(f"{said} {destination}; go on with: {command('lab', destination)}")
    return 0


NOTEBOOKS = {
    "copy": Command(
        "copy the notebooks into a folder", _copy_flags, _copy, "vpo-lite notebooks copy course"
    )
}


# --- the panel, served ----------------------------------------------------------------------------


def flags(made, arguments) -> None:
    made.add_argument(
        "code",
        nargs="?",
        metavar="CODE",
        help="share code of the panel to open (default: the panel of the first notebook)",
    )
    made.add_argument(
        "--recording",
        type=at_home,
        metavar="NAME|FOLDER",
        help="show a recorded run: one that ships, such as three_methods/seed-0, or a folder that "
        "lab.record() wrote",
    )
    made.add_argument(
        "--room",
        action="store_true",
        help="serve other machines of the network, too, and ask for a token (default: only this "
        "machine)",
    )
    made.add_argument(
        "--token",
        metavar="TEXT",
        help=f"with --room: {serve.LEAST_TOKEN} characters or more (default: a random token)",
    )
    add_number(
        made,
        "--viewers",
        "pages that may be open at a time; each runs a kernel of its own, of "
        f"{serve.LOOKING:g} GiB, {serve.TRAINING:g} GiB while it trains",
        default=serve.VIEWERS,
    )
    add_number(made, "--port", "port of the server", default=serve.PORT)
    _add_browser(made)


def run(options) -> int:
    from .machine import opens_browser

    _checked_port(options.port)
    if options.code is not None and options.recording is not None:
        raise Wrong("CODE and --recording: name one of them")
    if options.token is not None and not options.room:
        raise Wrong("--token: only with --room")
    if options.room and options.browser == "yes":
        raise Wrong("--browser yes: a room opens no window here; leave it out")
    if not 1 <= options.viewers <= serve.MOST_VIEWERS:
        raise Wrong(f"--viewers {shown(options.viewers)}: must be 1 to {serve.MOST_VIEWERS:,}")
    token = options.token
    if options.room and token is None:
        token = serve.new_token()
    with requests():
        if token is not None:
            serve.check_token(token)
        source = serve.cell(options.code, options.recording, room=options.room)
        serve.check_can_serve(options.port, token)
    print(serve.announcement(options.port, token, options.viewers))
    sys.stdout.flush()
    browser = not options.room and opens_browser(options.browser)
    serve.serve(source, port=options.port, token=token, viewers=options.viewers, browser=browser)
    return 0
