"""The demonstrations of a recipe, as token ids."""

from typing import NamedTuple

from torch.utils.data import Dataset

from ..policy.tokenizer import word_tokenizer
from .recipe import Recipe


class Demonstration(NamedTuple):
    """Token ids of a prompt, and of the completion that answers it."""

    prompt: list[int]
    completion: list[int]


class Demonstrations(Dataset):
    """The demonstrations of a recipe. Number i is a pure function of (its settings, i)."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.tokenizer = word_tokenizer(recipe.vocabulary())
        self.vocabulary = self.tokenizer.get_vocab()

    def __len__(self) -> int:
        return self.recipe.updates * self.recipe.batch

    def __getitem__(self, i: int) -> Demonstration:
        prompt, text = self.recipe.demonstration(i)
        return Demonstration(
            self._ids("<bos>", *prompt.symbols.split()), self._ids(*text.split(), "<eos>")
        )

    def _ids(self, *words: str) -> list[int]:
        return [self.vocabulary[word] for word in words]
