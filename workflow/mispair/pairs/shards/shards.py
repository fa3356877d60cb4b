"""Read webdataset tar shards: samples one after another, in constant memory.

Names follow webdataset's rule: the key ends at the first dot of the file name, and adjacent members
of one key form one sample (a *run*). Later dots in names still count: see `split_run`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from mispair.pairs.shards.packed_keys import has_mark, key_of_member
from mispair.pairs.shards.tar_members import BrokenTarError, Member, TrailingDataError, read_members

IMAGE_EXTENSIONS = (
    *("jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif", "bmp", "tif", "tiff"),
    *("ppm", "pgm", "pbm", "pnm", "avif", "img", "image"),
)
"""Endings of pictures; the content decides on the format, which some do not name."""
_ENDINGS_OF_IMAGES = tuple(f".{extension}" for extension in IMAGE_EXTENSIONS)
CAPTION_EXTENSION = "txt"
SIDECAR_EXTENSION = "json"
MAX_MEMBER_BYTES = 268_435_456
MAX_TEXT_BYTES = 1 << 20
"""Largest caption or JSON of a sample, in bytes; a real one has some hundreds."""
MAX_PIXELS = 89_478_485
"""Largest image that is decoded, in pixels (Pillow's warning limit for decompression bombs)."""
MAX_ASPECT_RATIO = 200
"""Largest longer side over shorter side. A tower enlarges the shorter side to its own, say 224
pixels: a picture of 1 x 65,500 would become one of 224 x 14,672,000."""
BUFFER_BYTES = 262_144


class TruncatedShardError(Exception):
    """A shard that cannot be read to its end; `key` is the sample it broke in, if any."""

    def __init__(self, key: str | None, cause: str):
        super().__init__(cause)
        self.key = key


@dataclass
class Sample:
    """The members of one key: ``members["jpg"]`` holds the bytes of ``KEY.jpg``."""

    key: str
    members: dict[str, bytes] = field(default_factory=dict)

    @property
    def image(self) -> bytes | None:
        """The encoded image, or None."""
        return next((self.members[e] for e in IMAGE_EXTENSIONS if e in self.members), None)

    @property
    def caption(self) -> bytes | None:
        """The encoded caption, or None."""
        return self.members.get(CAPTION_EXTENSION)


@dataclass
class AdjacentMembers:
    """The adjacent members of one first-dot key; their content is still in the shard.

    In a damaged run the last member may be cut off.
    """

    key: str
    members: list[Member] = field(default_factory=list)
    damage: str = ""
    """Why the shard cannot be read beyond these members; empty if it can."""
    is_packed: bool = False
    """Whether names of members are keys that mispair escaped."""


@dataclass
class Candidate:
    """What a run holds under one key: members of a pair, or of a part of it."""

    key: str
    members: list[tuple[str, Member]]
    """Extension in lower case, and the member."""
    caption_extension: str

    def of(self, *extensions: str) -> Member | None:
        """Return the first plain file with one of the extensions, or None."""
        for extension, member in self.members:
            if extension in extensions and not member.kind:
                return member
        return None

    @property
    def images(self) -> list[str]:
        """The extensions of all members that have one of an image."""
        return [extension for extension, _ in self.members if extension in IMAGE_EXTENSIONS]

    @cached_property
    def image(self) -> Member | None:
        """The image's member, or None, once all members are known."""
        return self.of(*IMAGE_EXTENSIONS)

    @cached_property
    def caption(self) -> Member | None:
        """The caption's member, or None, once all members are known."""
        return self.of(self.caption_extension)

    @property
    def ambiguity(self) -> str:
        """What occurs more than once, in words; empty if nothing does."""
        extensions = [extension for extension, _ in self.members]
        if len({*extensions}) < len(extensions):
            repeated = sorted({e for e in extensions if extensions.count(e) > 1})
            return f"has more than one {', '.join(repeated)}"
        images = self.images
        return f"has several images: {', '.join(images)}" if len(images) > 1 else ""

    def __str__(self) -> str:
        described = [e if m.is_file else f"{e} ({m.kind})" for e, m in self.members]
        return f"members: {', '.join(sorted(described))}"


def clean_name(name: str) -> str:
    """Return a member's name without leading ``./``; what remains is text, never a path.

    Examples
    --------
    >>> clean_name("./000.jpg"), clean_name("/data/000.jpg"), clean_name("../000.jpg")
    ('000.jpg', '/data/000.jpg', '../000.jpg')
    """
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name


def split_name(name: str) -> tuple[str, str]:
    """Split a member's name into key and extension at the first dot of the file name.

    Examples
    --------
    >>> split_name("a.b/000.JPG"), split_name("000.seg.png")
    (('a.b/000', 'jpg'), ('000', 'seg.png'))
    """
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension.lower()


def belongs_to_no_sample(member: Member) -> bool:
    """Return whether a member is skipped: a directory, a hidden file, a file without extension.

    Examples
    --------
    >>> [belongs_to_no_sample(Member(n, 0, 0)) for n in ("a/._000.jpg", "__MACOSX/000.jpg",
    ...     "README", "000.jpg")]
    [True, True, True, False]
    """
    base = member.name.rpartition("/")[2]
    return (
        "." not in base
        or base.startswith(".")
        or (base.startswith("__") and base.endswith("__"))
        or member.name.startswith("__MACOSX/")
        or "/__MACOSX/" in member.name
        or member.kind == "a directory"
    )


def is_encodable(text: str) -> bool:
    """Return whether a text can be written as UTF-8, as Parquet does: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass
class ShardReader:
    """An opened shard: its runs in order, and the content of any member."""

    opened: BinaryIO
    ignored: int = 0
    """Members skipped so far because they belong to no sample."""
    is_packed: bool = False
    """Whether the keys are escaped, once reading began."""

    def runs(self) -> Iterator[AdjacentMembers]:
        """Yield the runs in order; if the shard is damaged, the last one has the damage."""
        run: AdjacentMembers | None = None
        for member, damage in self._members():
            if member is not None:
                if member.name.startswith("./"):
                    member = member._replace(name=clean_name(member.name))
                key = split_name(member.name)[0]
                key = key_of_member(key) if self.is_packed else key
                if run is not None and run.key != key:
                    yield run
                    run = None
                run = run or AdjacentMembers(key, is_packed=self.is_packed)
                run.members.append(member)
            elif run is not None and not damage:
                yield run
                run = None
            if damage:
                run = run or AdjacentMembers("")
                run.damage = damage
        if run is not None:
            yield run

    def _members(self) -> Iterator[tuple[Member | None, str]]:
        """Yield the members of samples, and last any damage; (None, "") ends a whole last run."""
        try:
            self.is_packed = has_mark(self.opened)
            for member in read_members(self.opened):
                if belongs_to_no_sample(member):
                    self.ignored += 1
                else:
                    yield member, ""
        except OSError as error:
            yield None, f"cannot be read: {error.strerror}"
        except TrailingDataError as error:
            yield None, ""
            yield None, str(error)
        except BrokenTarError as error:
            named = error.member is not None and not belongs_to_no_sample(error.member)
            yield error.member if named else None, str(error)

    def read(self, member: Member) -> bytes:
        """Return the content of a member.

        Raises
        ------
        BrokenTarError
            If the disk fails, or the file became shorter since its headers were read.
        """
        try:
            self.opened.seek(member.offset)
            content = self.opened.read(member.size)
        except OSError as error:
            raise BrokenTarError(f"cannot be read: {error.strerror}") from error
        if len(content) != member.size:
            raise BrokenTarError("became shorter while it was read")
        return content


def read_samples(shard: Path, caption_extension: str = CAPTION_EXTENSION) -> Iterator[Sample]:
    """Yield the samples of a shard in the order of their first members, adjacent or not.

    Only plain files are read: images of at most `MAX_MEMBER_BYTES`, others of at most
    `MAX_TEXT_BYTES`. A sample lacks the rest. Of members with the same name the first one counts.

    Parameters
    ----------
    shard : Path
        The tar. Its headers are read before its first sample: some tools order by ending.
    caption_extension : str
        Extension that, with an image, makes a sample complete: ``txt``, or ``cls`` of a class.

    Raises
    ------
    TruncatedShardError
        If the shard is damaged; every sample yielded before is whole.
    """
    key = None
    try:
        with Path(shard).open("rb", buffering=BUFFER_BYTES) as opened:
            reader = ShardReader(opened)
            for run in _joined([*reader.runs()]):
                key = run.key
                if run.damage:
                    raise TruncatedShardError(run.key or None, run.damage)
                for candidate in split_run(run, caption_extension, lambda key: False):
                    yield _sample(candidate, reader)
    except (BrokenTarError, OSError) as error:
        raise TruncatedShardError(key, str(error)) from error


def _joined(runs: Sequence[AdjacentMembers]) -> Iterator[AdjacentMembers]:
    """Yield runs; those of one key as one, unless a name repeats: then they are other samples."""
    by_key: dict[str, list[AdjacentMembers]] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    for run in runs:
        of_key = by_key[run.key]
        members = [member for each in of_key for member in each.members]
        repeats = len({member.name.lower() for member in members}) < len(members)
        if len(of_key) == 1 or repeats or any(one.damage for one in of_key):
            yield run
        elif run is of_key[0]:
            yield replace(run, members=members)


def _sample(candidate: Candidate, reader: ShardReader) -> Sample:
    sample = Sample(candidate.key)
    for extension, member in candidate.members:
        limit = MAX_MEMBER_BYTES if extension in IMAGE_EXTENSIONS else MAX_TEXT_BYTES
        if member.is_file and member.size <= limit:
            sample.members.setdefault(extension, reader.read(member))
    return sample


def split_run(
    run: AdjacentMembers, caption_extension: str, has_table_caption: Callable[[str], bool]
) -> list[Candidate]:
    """Return the keys of a run that deserve a verdict, each with its members.

    A name's *stem* is all before its last extension. Stems that hold an image and a caption are
    pairs. If the run's own key is one of them, incomplete stems are its extra members and get no
    verdict; otherwise each stem with an image or a caption gets one. If there is none, the whole
    run gets one. The caption's extension may have a dot in it, as in ``llava.txt``. Where the
    user's table has a caption for a key, an image suffices.

    Examples
    --------
    >>> def keys(*names):
    ...     members = [Member(name, 0, 0) for name in names]
    ...     run = AdjacentMembers("000", members)
    ...     return [c.key for c in split_run(run, "txt", lambda key: False)]
    >>> keys("000.jpg", "000.seg.png", "000.txt")  # an extra member of 000
    ['000']
    >>> keys("000.final.jpg", "000.final.txt", "000.draft.jpg")  # names with dots
    ['000.final', '000.draft']
    >>> keys("000.json")
    ['000']
    """
    whole = _whole_stems(run, caption_extension)
    judged = {c.key for c in whole if c.image and (c.caption or has_table_caption(c.key))}
    if run.key not in judged:
        judged |= {c.key for c in whole if c.image or c.caption}
    chosen = [candidate for candidate in whole if candidate.key in judged]
    if chosen or run.damage:
        return chosen
    everything = [(split_name(member.name)[1], member) for member in run.members]
    return [Candidate(run.key, everything, caption_extension)]


def image_candidates(run: AdjacentMembers) -> tuple[list[Candidate], set[str]]:
    """Return the stems of a run whose images are listed, and those that are extra members.

    Names of members alone decide, for every caption extension and caption table. If the run's own
    key has an image and a text of its own, an image without any text of its own is an extra member.
    Every pair that `split_run` finds has a listed image, if no table names an extra member.

    Examples
    --------
    >>> def keys(*names):
    ...     run = AdjacentMembers("000", [Member(name, 0, 0) for name in names])
    ...     listed, extra = image_candidates(run)
    ...     return [c.key for c in listed], extra
    >>> keys("000.jpg", "000.seg.png", "000.txt")
    (['000'], {'000.seg'})
    >>> keys("000.final.jpg", "000.final.txt", "000.draft.jpg")
    (['000.final', '000.draft'], set())
    """
    images = [stem for stem in _whole_stems(run, CAPTION_EXTENSION) if stem.image]
    keys = [stem.key for stem in images]
    if len(keys) < 2 or run.key not in keys:
        return images, set()
    texts = [
        member.name
        for member in run.members
        if member.is_file and not member.name.lower().endswith(_ENDINGS_OF_IMAGES)
    ]
    of_others = tuple(f"{key}." for key in keys if key != run.key)
    if all(text.startswith(of_others) for text in texts):
        return images, set()
    with_text = {key for key in keys if any(text.startswith(f"{key}.") for text in texts)}
    extra = set(keys) - with_text - {run.key}
    return [stem for stem in images if stem.key not in extra], extra


def damaged_key(run: AdjacentMembers, caption_extension: str) -> str:
    """Return the key of the sample that a damaged shard broke in; empty if there is none."""
    stems = [_stem_of(run, member, caption_extension)[0] for member in run.members]
    return run.key if run.key in stems or not stems else stems[-1]


def _whole_stems(run: AdjacentMembers, caption_extension: str) -> list[Candidate]:
    """Return what a run holds under each stem, without the stems that damage interrupts."""
    stems: dict[str, Candidate] = {}
    for member in run.members:
        stem, extension = _stem_of(run, member, caption_extension)
        if stem not in stems:
            stems[stem] = Candidate(stem, [], caption_extension)
        stems[stem].members.append((extension, member))
    half_read = _half_read(run, stems)
    return [candidate for stem, candidate in stems.items() if stem not in half_read]


def _half_read(run: AdjacentMembers, stems: dict[str, Candidate]) -> set[str]:
    """Return the stems that damage interrupts: the last one read, and the run's own."""
    if not run.damage or not run.members:
        return set()
    last = run.members[-1]
    return {run.key} | {s for s, c in stems.items() if any(m is last for _, m in c.members)}


def _stem_of(run: AdjacentMembers, member: Member, caption_extension: str) -> tuple[str, str]:
    stem, extension = _last_extension(member.name, caption_extension)
    return key_of_member(stem) if run.is_packed else stem, extension


def _last_extension(name: str, caption_extension: str) -> tuple[str, str]:
    if name.lower().endswith("." + caption_extension):
        return name[: -len(caption_extension) - 1], caption_extension
    stem, _, extension = name.rpartition(".")
    return stem, extension.lower()
