"""What makes a pocket policy: the settings of ``vpo-lite pretrain``."""

from dataclasses import dataclass

import envs

from ..checks import shown
from ..options import Option, options_of, setting


@dataclass(frozen=True)
class PretrainConfig:
    """What makes a pocket policy.

    Freely drawn boards keep hand-drawn mazes from being a surprise. With smaller boards one model
    serves several presets.

    >>> PretrainConfig(layers=0)
    Traceback (most recent call last):
    ...
    ValueError: layers = 0: must be a whole number, 1 or more, at most 200
    """

    layout: str = setting("lite-6x6", "preset of the mazes", choices=tuple(envs.PRESETS))
    mazes: int = setting(80_000, "different mazes to learn from", least=1, most=10**9)
    drawn_share: float = setting(
        0.15,
        "share of freely drawn boards of any size up to the preset's",
        least=0,
        most=1,
    )
    smaller_share: float = setting(
        0.0, "share of batches from the presets with smaller boards", least=0, most=1
    )
    updates: int = setting(3_000, "number of updates", least=1, most=10**9)
    batch: int = setting(128, "demonstrations in an update", least=1, most=65_536)
    lr: float = setting(2e-3, "AdamW's peak learning rate, with linear decay", above=0, most=1)
    seed: int = setting(0, "of every random draw", least=0, most=2**63 - 1)
    width: int = setting(128, "width of the model", least=1, most=16_384)
    layers: int = setting(4, "layers of the model", least=1, most=200)
    heads: int = setting(4, "attention heads; width is an even multiple of them", least=1, most=256)
    mlp: int = setting(384, "width of the model's MLP", least=1, most=65_536)
    save_every: int = setting(200, "updates between two states to resume from", least=1, most=10**9)

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """All settings, in order; the flags of ``vpo-lite pretrain`` come from them."""
        return options_of(cls)

    def __post_init__(self):
        for option in self.options():
            object.__setattr__(self, option.name, option.check(getattr(self, option.name)))
        if self.smaller_share and len(self.layouts) == 1:
            raise ValueError(
                f"smaller_share = {self.smaller_share}: no preset has smaller boards than "
                f"{self.layout!r}"
            )
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"width = {self.width}, heads = {self.heads}: width must be an even multiple of "
                "heads"
            )

    @classmethod
    def from_json(cls, stored: dict) -> "PretrainConfig":
        """The settings that pretrain.json holds. ValueError for an unknown name."""
        unknown = set(stored) - {option.name for option in cls.options()}
        if unknown:
            raise ValueError(f"unknown setting {shown(min(unknown))}")
        return cls(**stored)

    @property
    def board_size(self) -> int:
        return envs.PRESETS[self.layout].size

    @property
    def layouts(self) -> list[str]:
        """The presets of the mazes: ``layout``, then those with smaller boards if they take part.

        >>> PretrainConfig(smaller_share=0.5).layouts
        ['lite-6x6', 'tiny-4x4']
        """
        if not self.smaller_share:
            return [self.layout]
        smaller = [n for n, preset in envs.PRESETS.items() if preset.size < self.board_size]
        return [self.layout, *smaller]
