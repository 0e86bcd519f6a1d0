"""Training several models at once: which loss moves which parameters, with which optimizer, from where."""

from ._penalty import gradient_penalty as gradient_penalty
from ._player import Player as Player
from ._routes import gradient_routes as gradient_routes
from ._scan import scan_updates as scan_updates
from ._state import MultiState as MultiState
from ._step import MultiUpdate as MultiUpdate
from ._step import multi_update as multi_update
