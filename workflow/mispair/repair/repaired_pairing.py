"""The repaired pairing of a rule, and its ledger, draw by draw."""

from __future__ import annotations

import pandas as pd

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.pairs.corruption.swap_draws import column
from mispair.repair import ledger, pairings
from mispair.repair.filter_settings import Rule, Settings
from mispair.repair.rule_files import Pairs, RuleFiles
from mispair.repair.rules import decide


def repaired_pairing(
    rule: Rule, pairs: Pairs, inputs: RuleFiles, settings: Settings
) -> tuple[pd.DataFrame, list[ledger.Row]]:
    """Apply a rule to every draw of the corruption.

    Returns
    -------
    table : DataFrame
        ``key``, ``group`` and ``row`` of each pair, and the columns of `pairings.repaired` for each
        draw.
    rows : list of dict
        Rows of the ledger, each with the number of its draw as ``seed``.

    Raises
    ------
    UserError
        If the rule lacks an input.
    """
    table, rows = pairs.table[["key", "group", "row"]].copy(), []
    for draw in range(int(pairs.metadata["draws"])):
        before = pairings.spared(pairs.table, pairs.original, pairs.trusted, draw)
        new = inputs.new_captions(table["key"], draw)
        given = new["caption_id"].to_numpy(object)
        evidence = inputs.evidence(pairs.trusted, new, draw)
        seed = seeds.integer(settings.seed, "filter-captions", draw)
        try:
            actions = decide(rule, evidence, settings, seed)
        except ValueError as error:
            raise UserError(f"filter_captions ({rule}): {error}.") from error
        if (former := inputs.after_first_round(draw)) is not None:
            actions, given = pairings.after_first_round(before, former, actions, given)
            new = new.assign(caption_id=given)
        columns = pairings.repaired(before, actions, given)
        for name, values in columns.items():
            table[column(name, draw)] = values
        of_draw = ledger.of_draw(actions, before, columns, new, pairs.trusted, pairs.features)
        rows += [{"seed": draw, **row} for row in of_draw]
    return table, rows
