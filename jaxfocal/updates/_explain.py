"""A multi-model update in plain words."""

from ._player import Params, Player
from ._routes import Routes, moved_by, unmoved_groups

ORDER = {
    "simultaneous": "all gradients are taken at the parameters that the step began with",
    "alternating": "each player takes its gradient at the parameters that the players before it left",
}


def explain(players: dict[str, Player], order: str, has_model_state: bool, routes: Routes, params: Params) -> str:
    """Losses, players and order; who sees old or new parameters; what is worth a second look; the table of routes."""
    lines = [f"{order}: {ORDER[order]}"]
    for number, name in enumerate(players, start=1):
        first, *rest = _player_lines(name, players, order, has_model_state, routes, params)
        lines += [f"{number}. {first}", *(f"   {line}" for line in rest)]
    return "\n".join([*lines, *_remarks(players, routes, params), "", str(routes)])


def _player_lines(
    name: str, players: dict[str, Player], order: str, has_model_state: bool, routes: Routes, params: Params
) -> list[str]:
    player = players[name]
    lines = [f"{name} moves {_listed(player.groups)} down loss {player.loss!r}", _seen(name, players, order, params)]
    for group, extent in routes[player.loss].items():
        if group in player.groups and extent == "none":
            lines.append(f"no gradient of {player.loss!r} gets to {group!r}: update will refuse this")
        if group not in player.groups and extent != "none":
            lines.append(f"{player.loss!r} reaches {group!r} too, which is constant to this player")
    if player.every > 1:
        lines.append(f"moves at the steps 0, {player.every}, {2 * player.every}, ... only")
    if player.n_steps > 1:
        lines.append(f"moves {player.n_steps} times a step, over as many parts of the batch")
    if player.ema is not None:
        lines.append(f"its average, decay {player.ema}, is state.ema[{name!r}]")
    if player.skip_nonfinite:
        lines.append("stays where its gradient is not finite")
    if has_model_state and not player.updates_state:
        lines.append("leaves the model state as it found it")
    return lines


def _seen(name: str, players: dict[str, Player], order: str, params: Params) -> str:
    """Which groups the player's gradient is taken at the new version of, and which at the old."""
    before = list(players)[: list(players).index(name)] if order == "alternating" else []
    new = {group: [other for other in before if group in players[other].groups] for group in params}
    parts = [f"new {group!r} (from {_and(by)})" for group, by in new.items() if by]
    old = [group for group, by in new.items() if not by]
    return "sees " + ", ".join([*parts, *([f"old {_listed(old)}"] if old else [])])


def _remarks(players: dict[str, Player], routes: Routes, params: Params) -> list[str]:
    lines = []
    for group in params:
        owners = moved_by(group, players)
        if len(owners) > 1:
            lines.append(
                f"{group!r} is moved by {_and(owners)}: {len(owners)} optimizer states act on it, one update after the "
                "other"
            )
    if unmoved := unmoved_groups(players, params):
        lines.append(f"nobody moves {_listed(unmoved)}")
    if unused := [loss for loss in routes if loss not in {player.loss for player in players.values()}]:
        lines.append(f"nobody minimises {_listed(unused)}")
    return lines


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


def _and(names: list[str]) -> str:
    return " and ".join(names)
