"""How texts are compared: normalised, then as a whole or by the F1 of their words.

The F1 is that of SQuAD (Rajpurkar et al. 2016, arXiv 1606.05250), as the data sets of questions use
it. What is dropped from a text, and in which order, differs between them.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # that of ASCII only


def normalised(
    value, *, articles: bool = True, underscores: bool = False, punctuation_first: bool = False
) -> str:
    """A value as lower-case words with single blanks, without ASCII punctuation.

    - articles: whether a, an and the are kept
    - underscores: whether an underscore becomes a blank; otherwise it is punctuation
    - punctuation_first: whether punctuation is dropped before the articles

    None is the empty text, and any other value its ``str``.

    >>> normalised("  The A-Team_2! ", articles=False)
    'team2'
    >>> normalised("The A-Team_2!", articles=False, punctuation_first=True)
    'ateam2'
    """
    text = "" if value is None else str(value)
    text = (text.replace("_", " ") if underscores else text).lower()
    text = text.translate(_PUNCTUATION) if punctuation_first else text
    text = text if articles else _ARTICLES.sub(" ", text)
    return " ".join(text.translate(_PUNCTUATION).split())


def multiset_f1(given: Sequence, gold: Sequence) -> float:
    """F1 of two multisets, 0 to 1: twice what they share, divided by their sizes together.

    Two empty ones give 1.

    >>> multiset_f1(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    if not given and not gold:
        return 1.0
    return 2 * (Counter(given) & Counter(gold)).total() / (len(given) + len(gold))


def token_f1(given, gold, **normalisation) -> float:
    """F1 of the words of two values, 0 to 1; keywords as for :func:`normalised`.

    >>> token_f1("born in Lisse", "Lisse")
    0.5
    """
    words = (normalised(value, **normalisation).split() for value in (given, gold))
    return multiset_f1(*words)
