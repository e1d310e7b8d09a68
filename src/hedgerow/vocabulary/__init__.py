"""Labels as things with names: vocabularies, read from files and written back, and their hierarchy."""

from .hierarchy import Hierarchy
from .lookup import Match
from .names import Entry, Name, VocabularyWarning
from .reading import read_vocabulary
from .vocabulary import NameColumns, Vocabulary

__all__ = [
    "Entry",
    "Hierarchy",
    "Match",
    "Name",
    "NameColumns",
    "Vocabulary",
    "VocabularyWarning",
    "read_vocabulary",
]
