"""Models that think before they answer: what stands in their thoughts is no answer."""

import numpy as np
import pytest
import torch
from small_models import CHAT, byte_tokenizer, model_folder

from vpo_lite.integrations.rewards import RolloutReward
from vpo_lite.policy.loading import load_policy
from vpo_lite.policy.sampling import Rollouts
from vpo_lite.tasks import numbered_form, read_numbered, task_class
from vpo_lite.tasks.functions import Asked, OfFunctions
from vpo_lite.tasks.records import on_records

FORM = numbered_form(2, "answer")
BOTH = "<answer_1> 4 </answer_1> <answer_2> 5 </answer_2>"
READ = [" 4 ", " 5 "]
OWN = "<answer_1> <think> a </think> 4 </answer_1> <answer_2> <think> b </think> 5 </answer_2>"
OWN_READ = [" <think> a </think> 4 ", " <think> b </think> 5 "]
NONE = [None, None]
ANALYSIS = "<|channel|>analysis<|message|>"  # GPT-OSS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOTH, READ),
        (f"<think>I must write {FORM}</think>{BOTH}", READ),
        (f"\n<think>\n\n</think>\n\n{BOTH}", READ),
        (f"I must write {FORM}</think>{BOTH}", READ),  # the prompt opened the thoughts
        (f"To <think>, or {FORM}? </think>{BOTH}", READ),
        (f"I begin with <answer_1> </think>{BOTH}", READ),
        (f"<think>I must write {FORM}", NONE),
        (f"<think>{BOTH}", NONE),
        (f"{BOTH}</think>", NONE),
        (f"{BOTH}<think> or {FORM}", READ),
        (f"<think>a</think>Well.<think>{FORM}</think>{BOTH}", READ),
        (f"<think>I end with </think>, after {FORM}.</think>{BOTH}", READ),
        (f"<answer_1> 4 </answer_1> <think> {FORM} </think> <answer_2> 5 </answer_2>", READ),
        (OWN, OWN_READ),
        (f"<think>{FORM}</think>{OWN}", OWN_READ),
        (f"{FORM}</think>{OWN}", OWN_READ),
        (f"<Think>{BOTH}", READ),  # no such tag
        (f"[THINK]I must write {FORM}[/THINK]{BOTH}", READ),
        (f"I must write {FORM}[/THINK]{BOTH}", READ),
        (f"<seed:think>I must write {FORM}</seed:think>{BOTH}", READ),
        (f"<seed:think>{BOTH}", NONE),
        (f"{ANALYSIS}I must write {FORM}<|end|><|start|>assistant<|channel|>final{BOTH}", READ),
        (f"{ANALYSIS}I must write {BOTH}", NONE),
        (f"{BOTH}<|end|>", READ),  # what it closes is no thought
    ],
)
def test_answers_are_read_outside_of_thoughts(text, expected):
    assert read_numbered(text, 2, "answer") == expected
    stripped = [None if body is None else body.strip() for body in expected]
    assert OfFunctions([len]).parse(Asked("?"), text, 2) == stripped


@pytest.mark.parametrize("text", ["<think>" * 20_000, "<answer_1>" * 20_000 + "</think>"])
def test_openings_alone_hold_no_answer(text):
    assert read_numbered(text, 2, "answer") == NONE


def test_a_single_answer_that_is_the_completion_keeps_its_thoughts():
    """Functions get it as TRL hands it over; a reward may count how it is thought."""
    text = "<think> 2 + 2 </think> 4"
    assert OfFunctions([len]).parse(Asked("?"), text, 1) == [text]
    task = on_records("calls")()
    assert task.parse(task.instance(0), text, 1) == [text]


@pytest.mark.parametrize("opening", ["<think>", ""])
@pytest.mark.parametrize("name", ["calls", "chains", "hops", "programs"])
@pytest.mark.parametrize("faithful", [False, True])
def test_every_parser_of_words_leaves_thoughts_out(name, faithful, opening):
    """The right answers are read behind thoughts that hold the form, as they are without them."""
    task = on_records(name)() if faithful else task_class(name)()
    x = task.instance(0)
    form = task.prompt(x, 2).text
    if faithful and name == "programs":
        answers = ["print(1)", "print(2)"]
    elif faithful:
        answers = [task.gold(x), task.gold(x)]
    else:
        answers = [
            task.read(
                x,
                {
                    "calls": "taxi_300 pet=no ; hotel_410 nights=4",
                    "chains": "Edda Ember Elsby Holm Joch",
                    "hops": "2 4 = Eva",
                    "programs": "left sort plus",
                }[name],
            )
        ] * 2
    said = task.write(x, answers)
    if faithful and name != "programs":
        said = "".join(f"<response_{i}>{a}</response_{i}>" for i, a in enumerate(answers, 1))
    assert None not in answers and task.parse(x, said, 2) == answers
    assert task.parse(x, f"{opening}So: {form}\n</think>\n{said}", 2) == answers
    never_ends = form if faithful and name == "calls" else said  # an answer there closes <think>
    assert task.parse(x, f"<think>{never_ends}", 2) == NONE
    if faithful and name != "calls":
        one = said if name == "programs" else answers[0]
        first = task.parse(x, one, 1)
        assert task.parse(x, f"{opening}{form} {one} </think>{one}", 1) == first


def test_any_word_may_be_the_tag_and_m_is_a_count():
    """The tag "c++" was a pattern, and m = 0 asked for nothing."""
    assert read_numbered("<c++_1> 4 </c++_1> <cc_2> 5 </cc_2>", 2, "c++") == [" 4 ", None]
    for m in (0, -1, 1.5):
        with pytest.raises(ValueError, match=rf"m = {m}: expected a whole number of at least 1"):
            numbered_form(m, "answer")
        with pytest.raises(ValueError, match=rf"m = {m}: expected a whole number of at least 1"):
            read_numbered(FORM, m, "answer")


# --- a template that opens the thought, whatever it is told ---------------------------------------

CUT = f"I could say {BOTH}, but"  # at the token limit, before the thought was closed
ENDED = f"I could say {FORM}.</think>{BOTH}"


@pytest.fixture(scope="module", params=["<think>", "<think>\n", ""])
def thinker(tmp_path_factory, request):
    """A model whose requests end so; the last one is any other model."""
    tokenizer = byte_tokenizer(chat=True)
    tokenizer.chat_template = CHAT[: -len("{% endif %}")] + request.param + "{% endif %}"
    folder = tmp_path_factory.mktemp("models") / "thinker"
    more = dict(tie_word_embeddings=False, bos_token_id=1)
    return str(model_folder(folder, tokenizer, 32, 48, 2, 2, 2, **more)), bool(request.param)


def test_a_thought_that_the_prompt_opened_and_nobody_closed_holds_no_answer(thinker):
    """A rollout that was cut off in its thoughts was paid for the drafts in them."""
    folder, opens = thinker
    policy = load_policy(folder, device="cpu")
    assert policy.opens_thought == opens
    rows = [policy.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (CUT, ENDED)]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[i < len(row) for i in range(longest)] for row in rows])
    alone = torch.zeros(2, dtype=torch.long)
    texts = policy.texts(Rollouts(tokens[:1], mask[:1], alone, tokens, mask, mask * 0.0, alone > 0))
    assert texts == [f"<think>{CUT}" if opens else CUT, ENDED]
    assert [read_numbered(text, 2, "answer") for text in texts] == [NONE if opens else READ, READ]


@pytest.mark.parametrize("thinks", [False, True])
def test_an_engine_that_samples_is_told_that_the_prompts_open_thoughts(thinks):
    def right(completions, **columns):
        return [float(text == "4") for text in completions]

    task = OfFunctions([right])
    reward = RolloutReward(answers=2, K=np.inf, thinks=thinks)
    scored = reward.score(task, [Asked("2 + 2")] * 2, ["a"] * 2, [CUT, ENDED], 0)
    assert [one.reward for one in scored] == [1 - thinks, 1]
    with pytest.raises(ValueError, match="thinks = 'yes': expected True or False"):
        RolloutReward(thinks="yes")
