"""The provider formats behind which the clients are tried: one face of the scripted provider for each.
Used by every module here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Face:
    """A provider format of the catalogue, and the models that are served over it.

    model: what clients ask for. fault_model: the same behind a provider id of its own, for checks that make the
    provider fail. small_model: what agents use for small things.
    """

    name: str
    format: str

    @property
    def model(self) -> str:
        return f"scripted-{self.name}"

    @property
    def fault_model(self) -> str:
        return f"{self.model}-faults"

    @property
    def small_model(self) -> str:
        return f"{self.model}-small"


OPENAI = Face("openai", "openai_chat")
ANTHROPIC = Face("anthropic", "anthropic")
RESPONSES = Face("responses", "openai_responses")
FACES = (OPENAI, ANTHROPIC, RESPONSES)


def named(names: str) -> tuple[Face, ...]:
    """The faces of a list with commas, all when it is empty; raise ValueError for a name that is none."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    by_name = {face.name: face for face in FACES}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"no face {', '.join(unknown)}; there are {', '.join(by_name)}")
    return tuple(by_name[name] for name in wanted) or FACES
