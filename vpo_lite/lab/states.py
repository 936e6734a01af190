"""The states of a lab and its moves, in one table.

The session looks up here every request that may change its state, and every end of its training
thread. It goes to the state that the move names and does what the move says. Nothing else changes
the state, but `Session.replay` and `bring_back` set "recorded".
"""

STATES = (
    "idle",  # nothing trained yet
    "running",  # a thread trains
    "pausing",  # it finishes its step, then pauses
    "stopping",  # it finishes its step, then stops
    "paused",  # Train goes on from here
    "stopped",  # Train starts again from step 1
    "finished",  # all steps are done
    "failed",  # training raised an error
    "recorded",  # shows a recording
)

# move -> the state after it; None: the state stays
AFTER = {
    "start": "running",  # fresh runs, from step 1
    "go_on": "running",  # the last runs, from where they are; fresh ones if they have no steps left
    "refuse": None,  # say that it trains already
    "pause": "pausing",  # ask the thread to halt; Train will go on
    "stop": "stopping",  # ask the thread to halt; Train will start again
    "forget": "idle",  # halt the thread and drop all runs
    "rest": "paused",
    "end": "stopped",
    "finish": "finished",
    "fail": "failed",
    ".": None,  # nothing
}

# Rows are requests. `train`: all steps, or one. `train_anew`: the same after a change of settings
# that need a fresh run. `forget`: reset, another seed or problem, a share code. `thread_done`: the
# training thread did its last step; `thread_left`: it was halted, or did the one step asked for.
_TABLE = """
                 idle   running pausing stopping paused stopped finished failed recorded
train            start  refuse  go_on   start    go_on  start   go_on    start  start
train_anew       start  start   start   start    start  start   start    start  start
pause            .      pause   pause   .        .      .       .        .      .
stop             .      stop    stop    stop     end    .       .        .      .
forget           forget forget  forget  forget   forget forget  forget   forget forget
thread_done      .      finish  rest    end      .      .       .        .      .
thread_left      .      rest    rest    end      .      .       .        .      .
thread_failed    .      fail    fail    fail     .      .       .        .      .
"""


_head, *_rows = (line.split() for line in _TABLE.strip().splitlines())
MOVES = {  # (request, state) -> move
    (request, state): move
    for request, *moves in _rows
    for state, move in zip(_head, moves, strict=True)
}


def move(request: str, state: str) -> tuple[str, str]:
    """What a request does in a state, and the state after it.

    >>> move("stop", "running"), move("stop", "paused")
    (('stop', 'stopping'), ('end', 'stopped'))
    """
    done = MOVES[request, state]
    return done, AFTER[done] or state
