"""Files of the image-text pairs of a run, as its configuration names them."""

import math
import operator
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.paths import fill
from mispair.core.provenance import fingerprint
from mispair.core.run_record import GENERATED
from mispair.core.settings import option
from mispair.core.stamps import stamp_of_many
from mispair.core.words import count
from mispair.pairs import paths
from mispair.pairs.captions.corpus_keys import (
    all_keys,
    are_few,
    first_keys,
    first_sidecars,
)
from mispair.pairs.captions.decoding import sidecar_text
from mispair.pairs.captions.table_files import refuse_keys, table_files
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards import remote
from mispair.pairs.shards.first_samples import LEAST_BYTES, FirstSamples, first_samples
from mispair.pairs.shards.shards import CAPTION_EXTENSION
from mispair.pairs.shards.sources import describe, resolve_named, resolve_shards
from mispair.pairs.shards.stores import is_remote, redacted
from mispair.pairs.sources.first_captions import (
    captions_of,
    captions_of_shards,
    lost_pairs,
    pictures_of,
    pictures_of_shards,
)
from mispair.pairs.sources.in_shards import captions_in_shards, probed
from mispair.pairs.sources.recognition import recognise
from mispair.pairs.sources.source import Source, keep_listings, named_of


def shard_groups(shards: Sequence[str], size: int) -> dict[str, list[str]]:
    """Return the shards of each group of at most `size`, by the name of the group.

    Group 3 has the shards with the numbers ``3 * size`` to ``4 * size - 1`` in their names, so a
    shard that is added or removed changes its own group only. Shards without such numbers, or with
    large gaps between them, are grouped by their position.
    """
    numbers = _numbers(shards)
    groups = _grouped(shards, [number // size for number in numbers]) if numbers else {}
    if not groups or len(groups) > 2 * math.ceil(len(shards) / size):
        groups = _grouped(shards, [position // size for position in range(len(shards))])
    return groups


def _numbers(shards: Sequence[str]) -> list[int]:
    """Return the ascending numbers that names end in, or nothing if they differ otherwise."""
    found = [re.fullmatch(r"(.*?)([0-9]{1,15})\.tar", shard) for shard in shards]
    matches = [match for match in found if match]
    numbers = [int(match[2]) for match in matches]
    same = len(matches) == len(shards) and len({match[1] for match in matches}) == 1
    return numbers if same and all(map(operator.lt, numbers, numbers[1:])) else []


def _grouped(shards: Sequence[str], places: Sequence[int]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for shard, place in zip(shards, places, strict=True):
        groups.setdefault(f"{place:04d}", []).append(shard)
    return groups


class PairFiles:
    """Shards in groups, their sources, and the caption tables of a run.

    Parameters
    ----------
    config : pydantic.BaseModel
        The checked configuration.
    used : bool
        Whether a study reads pairs. If none does, there are no groups, and files may be missing.
    has_file : bool
        Whether a file or the command line configures the run, which is the demo otherwise.
    in_a_job : bool
        Whether one job of a run that has begun reads the configuration. It lists no remote shards.

    Attributes
    ----------
    groups : dict
        The shards of each group, by the name of the group.
    source : Source
        What `pairs` names, if it is no tar shards.
    remote : dict
        The remote shards, by the paths of their copies.
    """

    def __init__(self, config: Any, used: bool, has_file: bool, in_a_job: bool = False):
        self._config, self._has_file, self._in_a_job = config, has_file, in_a_job
        self._sources: dict[str, str] = {}
        self._stamps: dict[int, str] = {}
        self.remote: dict[str, remote.RemoteShard] = {}
        self.source, self._parts = Source("generated", "generated pairs"), list[Source]()
        self.groups = self._groups() if used else {}

    @property
    def is_generated(self) -> bool:
        """Whether make_scenes writes the pairs."""
        return bool(self._config.shards == GENERATED == self._config.pairs)

    @property
    def is_packed(self) -> bool:
        """Whether the pairs are packed into shards first."""
        return bool(self._parts)

    @cached_property
    def captions_in(self) -> str:
        """Where samples have their captions: as `index_shards.caption_from` says, or by the data.

        Raises
        ------
        UserError
            If the first samples of shards have none.
        """
        given = str(self._config.index_shards.caption_from)
        if self.is_packed and given == CAPTION_EXTENSION:
            return self.source.captions_in
        if given.startswith("json:") or self._has_all_captions:
            return given
        shards = {path: first_samples(path) for path in probed([*self.own_shards()])}
        return captions_in_shards(shards, given, is_needed=self._config.captions is None)

    @property
    def _has_all_captions(self) -> bool:
        """Whether a table has all captions, and no sample needs one."""
        reading = self._config.index_shards.table_captions
        return self._config.captions is not None and reading == "replace"

    def first_captions(self) -> list[str]:
        """Return some captions of the user's pairs, or none if a table has them."""
        if self._has_all_captions:
            return []
        is_needed = self._config.captions is None
        limit = self._config.gather_index.max_quarantined_share if is_needed else 1
        if self.is_packed:
            return captions_of(self.source, limit)
        return captions_of_shards(probed([*self.own_shards()]), self.captions_in, limit)

    def lost_pairs(self) -> dict[str, list[str]]:
        """Return keys of listed pairs that lack a picture or a caption, by what they lack."""
        empty = self._config.index_shards.empty_captions
        policy = Policy(caption_from=self.source.captions_in, empty_captions=empty)
        return lost_pairs(self.source, policy, has_captions=self._config.captions is not None)

    def first_pictures(self) -> Iterator[tuple[str, bytes]]:
        """Yield some of the user's pictures, as far as they can be read, with where each is."""
        if self.is_packed:
            return pictures_of(self.source)
        return pictures_of_shards(probed([*self.own_shards()]))

    def refuse_remote_captions(self) -> None:
        """Refuse remote shards whose captions are elsewhere than configured, by the first one.

        Raises
        ------
        UserError
            If the first samples have no such captions, with where they are.
        """
        given = str(self._config.index_shards.caption_from)
        if not self.remote or given.startswith("json:") or self._config.captions is not None:
            return
        start = self._starts_of_remote
        place = captions_in_shards(start, given)
        if place != given.lower().lstrip("."):
            raise UserError(
                f"index_shards.caption_from: the first samples of {next(iter(start))} have their "
                f"captions in {place}, and not in {given}. Name it, as by --config "
                f'"index_shards={{caption_from: {place}}}".'
            )

    @cached_property
    def _starts_of_remote(self) -> dict[str, FirstSamples]:
        """The start of the first remote shard that can hold a sample, by its address."""
        large = (one for one in self.remote.values() if one.size >= LEAST_BYTES)
        return {one.address: remote.first_samples_of(one) for one in islice(large, 1)}

    @cached_property
    def faults(self) -> dict[str, str]:
        """Why each shard that was looked at cannot be read, or nothing; no job has run yet.

        All are looked at by their sizes; some, and those that are too small, by their starts.
        """
        if self.remote:
            faults = {one.address: f"has {one.size} bytes, and no sample"
                      for one in self.remote.values() if one.size < LEAST_BYTES}  # fmt: skip
            starts = self._starts_of_remote.items()
            return faults | {one: start.fault for one, start in starts}
        shards = [*self.own_shards()]
        small = (s for s in shards if os.path.isfile(s) and os.path.getsize(s) < LEAST_BYTES)
        return {one: first_samples(one).fault for one in [*small, *probed(shards)]}

    @property
    def generated_shards(self) -> list[str]:
        """The shards that make_scenes writes."""
        return [f"{paths.SCENES}/{name}.tar" for name in self.generated_names]

    @property
    def generated_names(self) -> list[str]:
        """The names of the generated shards, as img2dataset numbers them."""
        return [f"{number:05d}" for number in range(self._config.make_scenes.shards)]

    def scenes(self, folder: str) -> list[str]:
        """Return the files that make_scenes writes into a folder."""
        ends = (".tar", ".parquet", "_stats.json")
        return [f"{folder}/{name}{end}" for end in ends for name in self.generated_names]

    def _groups(self) -> dict[str, list[str]]:
        given = self._config.shards
        if self.is_generated:
            shards = self.generated_shards
        elif addresses := self._addresses():
            corpus = self._config.corpus
            kept = remote.kept_listing(corpus, addresses) if self._in_a_job else {}
            self.remote = kept or {
                fill(paths.REMOTE, corpus=corpus, shard=shard.name.removesuffix(".tar")): shard
                for shard in remote.list_shards(addresses)
            }
            shards = [*self.remote]
        elif self._config.pairs != GENERATED:
            self.source = recognise(self._config.pairs)
            if not self.source.shards:
                self._parts = self.source.divided(self._config.pack_pairs.pairs_per_shard)
                names = [f"{number:04d}" for number in range(len(self._parts))]
                corpus = self._config.corpus
                return {name: [fill(paths.PACKED, corpus=corpus, group=name)] for name in names}
            shards = [*map(str, self.source.shards)]
        elif isinstance(given, dict):
            self._sources = {str(shard): name for shard, name in resolve_named(given).items()}
            shards = [*self._sources]
        else:
            shards = [str(shard) for shard in resolve_shards(given)]
        return shard_groups(shards, self._config.index_shards.shards_per_job)

    def _addresses(self) -> list[str]:
        """Return the addresses of remote shards that the configuration names."""
        given = self._config.shards if self._config.pairs == GENERATED else self._config.pairs
        sources = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        addresses = [source for source in sources if is_remote(source)]
        if addresses and len(addresses) < len(sources):
            local = next(source for source in sources if source not in addresses)
            raise UserError(
                f"pairs: {redacted(addresses[0])} is remote and {local} is not. Name shards "
                "of one kind, or fetch the remote ones first."
            )
        return addresses

    @property
    def streams(self) -> bool:
        """Whether the pairs are remote shards, of which no copies stay."""
        return bool(self.remote) and not self._config.fetch_shard.keep_local

    @property
    def groups_read_at_once(self) -> str:
        """A pattern of the groups that one job fetches, indexes and encodes: all or none."""
        return "[0-9]+" if self.streams else "(?!)"

    @property
    def groups_read_twice(self) -> str:
        """A pattern of the groups that jobs of their own list, index and encode."""
        return "(?!)" if self.streams else "[0-9]+"

    def fetched(self, shards_of: Callable[[Any], list[str]]) -> dict[str, Any]:
        """Return the MB of the remote shards that a job fetches as a resource, or nothing.

        It is no parameter, as it changes no result.
        """

        def megabytes(wildcards: Any) -> int:
            return -(-sum(self.remote[shard].size for shard in shards_of(wildcards)) // 10**6)

        return {"fetched_mb": megabytes} if self.streams else {}

    def streamed(self, shards: Any) -> dict[str, Any]:
        """Return the shards of a job as a parameter if they are no files, or nothing."""
        return {"shards": shards} if self.streams else {}

    def fetching(self, wildcards: Any) -> str:
        """Return what is fetched for a remote shard as command-line flags."""
        copy = fill(paths.REMOTE, corpus=wildcards.corpus, shard=wildcards.shard)
        if copy not in self.remote:
            raise UserError(f"pairs: no remote shard of this configuration is copied to {copy}.")
        named = self.remote[copy]._asdict()
        return " ".join(f"{option(key)}={shlex.quote(str(value))}" for key, value in named.items())

    def marks(self, shards: list[str]) -> str:
        """Return a text that changes with the content of remote shards; empty if there are none."""
        listed = [self.remote[path] for path in shards if path in self.remote]
        marks = [f"{shard.address} {shard.size} {shard.mark}" for shard in listed]
        return fingerprint(marks) if marks else ""

    def echo(self) -> str:
        """Return a line on the shards that were matched, or that there is no configuration."""
        if self.is_generated and not self._has_file:
            return (
                "config: no --configfile is given, so this is the demo on generated pictures. For "
                "data of your own, give --configfile mine.yaml"
            )
        if self.is_generated and self.groups:
            return "pairs: generated pictures (make_scenes); name yours by pairs or shards"
        if not self.groups:
            return ""
        if self.is_packed:
            number = count(len(self.groups), "shard")
            return f"pairs: {self.source.words}; packed into {number}"
        if self.remote:
            size = sum(shard.size for shard in self.remote.values())
            number = count(len(self.remote), "remote shard")
            unmarked = sum(shard.mark == remote.NO_MARK for shard in self.remote.values())
            rest = f"; {unmarked:,} without an ETag, so a change of equal size is not noticed"
            amount = f"{size / 1e9:,.3g} GB" if size >= 1e8 else f"{size / 1e6:,.3g} MB"
            return f"pairs: matched {number}, {amount}{rest if unmarked else ''}"
        repeated = Counter(self._sources.values()).items()
        counts = "".join(f"; {name}: {number:,}" for name, number in repeated)
        captions = f"; captions: {self.captions_in}" * (self.captions_in != CAPTION_EXTENSION)
        matched = describe([*map(Path, self.shards())], len(self.groups))
        return f"shards: {matched}{counts}{captions}"

    def shards_of(self, wildcards: Any) -> list[str]:
        """Return the shards of a group."""
        return self.groups[wildcards.group]

    def sources_of(self, wildcards: Any) -> list[str]:
        """Return the name of the source of each shard of a group; none if sources have no names."""
        return self.sources_of_shards(self.shards_of(wildcards))

    def sources_of_shards(self, shards: list[str]) -> list[str]:
        """Return the name of the source of each shard; none if sources have no names."""
        return [self._sources[path] for path in shards if path in self._sources]

    def downloads_of(self, wildcards: Any) -> list[str]:
        """Return img2dataset's statistics of its downloads, next to the shards of a group."""
        return self.beside(self.shards_of(wildcards), "_stats.json")

    def beside(self, shards: list[str], ending: str) -> list[str]:
        """Return the files named after shards; for the user's own, only existing files."""
        names = [f"{shard.removesuffix('.tar')}{ending}" for shard in shards]
        return names if self.is_generated else [path for path in names if Path(path).is_file()]

    def packing(self, wildcards: Any) -> str:
        """Return what is packed into a shard as command-line flags."""
        part = self._parts[int(wildcards.group)]
        named = named_of(self._config.pairs).flags() | {
            "pairs_per_shard": str(self._config.pack_pairs.pairs_per_shard),
            "pairs": str(part.pairs),
            "listed": part.stamp,
        }
        return " ".join(f"{option(name)}={shlex.quote(value)}" for name, value in named.items())

    def packed_stamp(self, wildcards: Any) -> str:
        """Return a text that changes with the content of the files that a shard is packed from.

        Snakemake asks for it four times, and a large source has hundreds of thousands of files.
        """
        group = int(wildcards.group)
        if group not in self._stamps:
            files = self._parts[group].files
            self._stamps[group] = stamp_of_many(self._part_name(group), files)
        return self._stamps[group]

    def keep_listings(self) -> None:
        """Store the pairs of a source that is packed, for the jobs that pack them."""
        if self._parts:
            keep_listings(self._parts)

    def begin(self) -> None:
        """Store the listing of remote shards: a run that begins, and no dry run, decides on it."""
        if self.remote:
            remote.keep_listing(self._config.corpus, self._addresses(), self.remote)

    def _part_name(self, group: int) -> str:
        size = self._config.pack_pairs.pairs_per_shard
        return named_of(self._config.pairs).part(group, size)

    def tables_of_pairs(self) -> list[str]:
        """Return the files with the captions of a source that is packed."""
        return [str(path) for path in self.source.tables]

    def caption_tables(self) -> list[str]:
        """Return the files of the user's caption table, if there is one.

        Raises
        ------
        UserError
            If the configuration names no such file.
        """
        given = self._config.captions
        if given is None:
            return []
        tables, keys = table_files("captions", given), self._config.caption_keys
        refuse_keys(tables[0], None if keys is None else Path(keys))
        return [str(path) for path in tables]

    def own_shards(self) -> dict[str, str]:
        """Return the user's shards, each with the name of its source, or nothing."""
        is_made = self.is_generated or self.is_packed or self.remote
        shards = [] if is_made else self.shards()
        return {shard: self._sources.get(shard, "") for shard in shards}

    def example_keys(self) -> list[str]:
        """Return keys of the user's pairs, as far as they are known before any job."""
        if self.is_packed:
            return sorted(self.own_keys() or ())
        return first_keys(self.first_shards())

    def own_keys(self) -> set[str] | None:
        """Return all keys of the user's pairs, or None if they are not known before any job."""
        if self.is_packed:
            return None if self.source.columns else {entry.key for entry in self.source.entries}
        return None if self.remote else all_keys(self.own_shards())

    def texts_of(self, field: str, of_all: bool = False) -> list[str] | None:
        """Return texts of a field of the user's pairs: of first samples, or `of_all`.

        Without JSON next to pictures, all are known. None if they are not, as in a large corpus.
        """
        if self.is_packed:
            entries = self.source.entries
            if self.source.columns or any(
                one.endswith(".json") for of in entries for one in of.texts
            ):
                return None
            return [text for entry in entries for name, text in entry.fields if name == field]
        shards = self.own_shards() if of_all else self.first_shards()
        if of_all and not are_few(shards):
            return None
        sidecars = first_sidecars(shards, of_all)
        return [text for one in sidecars if (text := sidecar_text(one, field))] or None

    def listed_pairs(self) -> int | None:
        """Return the number of the user's pairs, some of which a job may reject, if it is known."""
        if self.is_generated:
            return None
        if self.is_packed:
            return self.source.pairs
        keys = self.own_keys()
        return None if keys is None else len(keys)

    def pairs_of_shards(self) -> list[int] | None:
        """Return the number of pairs in each shard, some of which may be rejected, if known."""
        if self.is_generated:
            return [self._config.make_scenes.pairs_per_shard] * len(self.shards())
        if self.is_packed:
            return [part.pairs for part in self._parts]
        shards = self.own_shards()
        known = [all_keys({shard: ""}) for shard in shards] if are_few(shards) else []
        return [len(keys) for keys in known if keys is not None] or None

    def first_shards(self) -> dict[str, str]:
        """Return the user's first shard of each source, with the name of the source."""
        first = {source: shard for shard, source in reversed(self.own_shards().items())}
        return {shard: source for source, shard in first.items()}

    def shards(self, groups: int | None = None) -> list[str]:
        """Return the shards of the corpus, or of its first groups: the report shows samples."""
        return [shard for group in [*self.groups.values()][:groups] for shard in group]

    def sources(self, groups: int | None = None) -> list[str]:
        """Return the names of the sources of `shards`."""
        return self.sources_of_shards(self.shards(groups))
