"""Labels as things with names: vocabularies, read from files and written back, and their hierarchy."""

from .columns import NameColumns
from .hierarchy import Hierarchy
from .lookup import Match
from .names import Entry, Name, VocabularyWarning
from .vocabulary import Vocabulary, read_vocabulary

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
