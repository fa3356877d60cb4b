"""config.yaml, its schema and its reference page: one source, kept in step."""

import copy
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mispair import config
from mispair.config_mistakes import REMOVED
from mispair.config_paths import Located, is_section
from mispair.core.commands import step_module, step_names
from mispair.core.files import UserError
from mispair.core.settings import Settings, command_line
from mispair.verbs import program

REPOSITORY = Path(__file__).parents[2]
CONFIGS = [REPOSITORY / "config.yaml", *sorted((REPOSITORY / "config").glob("*.yaml"))]


@pytest.mark.parametrize(("path", "text"), [
    ("workflow/schemas/config.schema.yaml", program.schema_text),
    ("docs/reference/config.md", program.reference_text),
])  # fmt: skip
def test_generated_files_are_in_step(path: str, text) -> None:
    assert (REPOSITORY / path).read_text() == text(), "run `make schema` and commit the result"


def test_every_config_is_valid_by_model_and_by_schema() -> None:
    schema = yaml.safe_load(program.schema_text())
    form = jsonschema.validators.validator_for(schema)
    form.check_schema(schema)  # which `jsonschema.validate` does for each configuration
    for path in CONFIGS:
        content = yaml.safe_load(path.read_text())
        config.validate(content, path.name)
        form(schema).validate(content)


def test_the_embedded_config_says_the_defaults() -> None:
    """What a newcomer reads in config.yaml is what a missing key would mean."""
    embedded = config.validate(
        yaml.safe_load((REPOSITORY / "config.yaml").read_text()), "config.yaml"
    )
    assert embedded == config.Config()


def test_every_key_of_the_embedded_config_is_explained() -> None:
    lines = (REPOSITORY / "config.yaml").read_text().splitlines()
    for above, line in pairwise(lines):
        if line.strip() and not line.lstrip().startswith(("#", "- ")) and not line.endswith(":"):
            assert "#" in line or above.lstrip().startswith("#") or "seed:" in line, line


def test_every_step_with_settings_is_a_section() -> None:
    sections = set(config.Config.model_fields) & set(step_names())
    assert sections == {name for name in step_names() if step_module(name).Settings.model_fields}


@pytest.mark.parametrize(("content", "words"), [
    ({"corupt_captions": {}}, ["corupt_captions: there is no such key", "'corrupt_captions'"]),
    ({"corrupt_captions": {"rate": [0.5]}}, ["corrupt_captions.rate", "Did you mean 'rates'?"]),
    ({"corrupt_captions": {"rates": [0.5, 2]}}, ["corrupt_captions.rates[1]", "given: 2"]),
    ({"finetune_projection": {"epoch": 3}}, ["Did you mean 'epochs'?"]),
    ({"rates": [0.5]}, ["rates: there is no such key", "corrupt_captions.rates"]),
    ({"corrupt_captions": None, "rates": [0.5]}, ["It is corrupt_captions.rates;"]),
    ({"corrupt_captions": {"seeds": 2}}, ["corrupt_captions.seeds", "finetune_projection.seeds"]),
    ({"studies": ["audit"], "rates": [0.5]}, ["have it: calibrate_audit.rates, corrupt_captions"]),
    ({"pairs": ["a", "b"]}, ["pairs: it names one source", "glob", "key `shards`"]),
    ({"elephants": 1}, ["elephants", "allowed here: caption_keys, captions,"]),
    ({"corrupt_captions": {"rates": 0.5}}, ["corrupt_captions.rates", "[a, b]", "given: 0.5"]),
    ({"corrupt_captions": {"towers": "shipped"}}, ["general key", "at the left"]),
    ({"finetune_projection": {"logit_scale": "fre"}}, ["Did you mean 'free'?"]),
    ({"prune_neurons": {"ks": [0]}}, ["prune_neurons.ks[0]", "given: 0"]),
    ({"studies": []}, ["studies", "at least 1"]),
    ({"studies": ["simulation", "simulation"]}, ["simulation is listed twice"]),
    ({"evaluation_sets": ["a", "a"]}, ["a is listed twice"]),
    ({"corpus": "../x"}, ["corpus", "form"]),
    ({"make_scenes": 3}, ["make_scenes", "given: 3", "section"]),
    ({"make_scenes": []}, ["make_scenes", "section"]),
    ({"models": [{"name": "a", "recipe": "laclip"}]},
     ["models[0].recipe: Input should be", "Did you mean 'laclip-cc'?"]),
    ({"models": [{"name": "a", "model": "ViT-B-32", "checkpoint": "x"}]},
     ["1 mistake:", "models[0]: model a: ", "add quick_gelu, preprocess"]),
    ({"towers": {"name": "a", "recipe": "laclip-cc", "checkpont": "x"}},
     ["1 mistake:", "towers.checkpont: there is no such key", "'checkpoint'"]),
    ({"export_repaired": {"rules": ["share"]}}, ["share is not in filter_captions.rules"]),
    ({"prune_neurons": {"starts": ["scale-5"]}}, ["scale-5", "finetune_projection.starts"]),
    ({"fit_linear_probe": {"starts": ["audit-weighted"]}}, ["audit-weighted is not in"]),
    ({"filter_captions": {"rates": [1.5]}}, ["filter_captions.rates[0]", "given: 1.5"]),
    ({"filter_captions": {"rates": []}}, ["filter_captions.rates", "at least 1"]),
    ({"recaption_pairs": {"min_words": 9, "max_words": 3}}, ["recaption_pairs: max_words: 3"]),
    ({"calibrate_audit": {"rates": [0.3, 0.3]}}, ["calibrate_audit: rates: 0.3", "twice"]),
    ({"corrupt_captions": {"rates": [0.1, 0.10000001]}}, ["rates: 0.1 is listed twice"]),
    ({"audit_pairs": {"seed": "5e3"}}, ["audit_pairs.seed", "digits", "'5e3'"]),
    ({"trust_pairs": {"share": "10%"}}, ["trust_pairs.share", "point", "'10%'"]),
    ({"corpus": None}, ["corpus", "given: None", "null", "take the key out, or quote it"]),
    ({"corpus": "a/b"}, ["corpus", "without a slash"]),
    ({"towers": 5}, ["1 mistake:", "towers: this is a text (given: 5)"]),
])  # fmt: skip
def test_messages_name_key_value_and_nearest_name(content: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as refusal:
        config.validate(content, "mine.yaml")
    for word in ["mine.yaml", *words]:
        assert word in str(refusal.value)


@pytest.mark.parametrize("setting", REMOVED)
def test_a_removed_setting_is_named_with_what_to_use(setting: str) -> None:
    name, _, content = setting.partition(": ")
    kind = "value" if content else "setting"
    for key in reversed(name.split(".")):
        content = {key: [content] if key == "rules" else content or None}
    with pytest.raises(UserError, match="1 mistake:") as refusal:
        config.validate(content, "mine.yaml")
    assert f"  {setting}: this {kind} was removed. {REMOVED[setting]}" in str(refusal.value)


def test_what_another_list_lacks_may_be_left_at_its_default() -> None:
    """A default that names what the user leaves out asks for nothing."""
    few = {"filter_captions": {"rules": ["drop"]}, "finetune_projection": {"starts": ["scale-10"]}}
    defaults = config.Config()
    full = few | {"export_repaired": {"rules": defaults.export_repaired.rules}}
    assert config.validate(full, "mine.yaml") == config.validate(few, "mine.yaml")
    weighted = {"finetune_projection": {"weights": "audit"}}
    config.validate(weighted | {"fit_linear_probe": {"starts": ["audit-weighted"]}}, "mine.yaml")


def test_a_list_under_pairs_is_one_of_tar_shards(tmp_path: Path) -> None:
    """Shards in several folders; of other sources a list is refused with a remedy."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.tar").write_bytes(b"")
    given = [str(tmp_path / "a"), str(tmp_path / "b/*.tar"), "c/{000..111}.tar"]
    found = config.validate({"pairs": given, "shards": "generated"}, "mine.yaml")
    assert (found.shards, found.pairs) == (given, "generated")
    (tmp_path / "a/a.tar").rename(tmp_path / "a/a.jpg")
    with pytest.raises(UserError, match="pairs: it names one source"):
        config.validate({"pairs": given}, "mine.yaml")


def test_a_removed_section_that_asks_for_nothing_is_left_out() -> None:
    assert config.validate({"export_pruned": {"ks": []}}, "mine.yaml") == config.validate({}, "")
    for section in ({"ks": [16]}, {"ks": [], "more": True}):
        with pytest.raises(UserError, match="export_pruned: this setting was removed"):
            config.validate({"export_pruned": section}, "mine.yaml")


def test_a_section_of_the_users_own_is_meant_by_a_key_in_a_wrong_place() -> None:
    """And not one of the embedded configuration, which has all of them."""
    embedded = yaml.safe_load((REPOSITORY / "config.yaml").read_text())
    own = {"corrupt_captions": {"schemes": ["random"]}, "rates": [0.5]}
    with pytest.raises(UserError, match="It is corrupt_captions.rates;"):
        config.validate(embedded | own, {"mine.yaml": own})
    own = {"studies": ["audit"], "corrupt_captions": {"seeds": 2}}
    with pytest.raises(UserError, match=r"have it: finetune_projection\.seeds, "):
        config.validate(embedded | own, {"mine.yaml": own})


def test_a_key_in_a_wrong_place_is_named_with_its_right_one() -> None:
    """Of all keys of all sections: at the left, and in a section that lacks it."""
    model = config.Config
    sections = {name: field.annotation for name, field in model.model_fields.items()
                if is_section(field.annotation)}  # fmt: skip
    owners: dict[str, list[str]] = {}
    for section, settings in sections.items():
        for key in settings.model_fields:
            owners.setdefault(key, []).append(f"{section}.{key}")
    for key in owners.keys() - model.model_fields.keys() - REMOVED.keys():
        for section in (None, next(s for s in sections if f"{s}.{key}" not in owners[key])):
            if f"{section}.{key}" in REMOVED:
                continue
            with pytest.raises(UserError) as refusal:
                config.validate({key: 1} if section is None else {section: {key: 1}}, "mine.yaml")
            assert any(f" {owner}" in str(refusal.value) for owner in owners[key]), refusal.value


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(UserError, match="2 mistakes"):
        config.validate({"studie": [], "corrupt_captions": {"rates": [7]}}, "mine.yaml")


def test_an_empty_section_means_the_defaults() -> None:
    assert config.validate({"corrupt_captions": None}, "mine.yaml") == config.Config()


def located(folder: Path, given: dict, **changes: Any) -> dict[str, Any]:
    """Return a configuration with the paths of a file in a folder."""
    content = copy.deepcopy(given) | changes
    config.locate(content, {folder / "mine.yaml": given}, changes)
    return content


@pytest.mark.parametrize(
    "value",
    [yaml.safe_load(text) for text in (
        "2024_11", "20.5", "2024-11-02", "2024-11-02 10:00:00", "no", "Off", "007", "12:30", "0x1f",
        "1_0.5", ".inf",
    )],
)  # fmt: skip
@pytest.mark.parametrize("key", ["corpus", "captions", "protocols"])
def test_what_yaml_reads_as_no_text_is_to_be_quoted(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"{key}.*given: .*quote it"):
        config.validate({key: [value] if key == "protocols" else value}, "mine.yaml")
    with pytest.raises(UserError, match=r"1 mistake.*\n.*shards.*quote it"):
        config.validate({"shards": {"a": value}}, "mine.yaml")
    for names in ("shards", "evaluation_sets"):
        with pytest.raises(UserError, match=rf"{names}.*quote"):
            config.validate({names: {value: "a"}}, "mine.yaml")


@pytest.mark.parametrize("value", [["a.txt", "b.txt"], [["a"]], {"a": {"b": "c"}}, {"path": "a"}])
@pytest.mark.parametrize("key", [*config.Config.model_fields])
def test_no_form_of_a_value_is_refused_in_words_of_the_library(key: str, value: Any) -> None:
    told = ""
    try:
        config.validate({key: value}, "mine.yaml")
    except UserError as error:
        told = str(error)
    assert not re.search(r"Input tag|valid string|_form", told)
    one_file = ("caption_keys", "trusted", "reviewed", "reviewed_repairs", "groups")
    if key in one_file:
        remedy = "join several files into one" if isinstance(value, list) else "no keys below"
        assert re.search(rf"\n  {key}: this is one path, and .*{remedy}", told)


def test_variables_and_home_in_paths_are_expanded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("HOME", "/home/me")
    given = {
        "shards": {"a": ["$DATA/*.tar", "${DATA}/x"], "b": "~/b"},
        "towers": {"name": "a", "folder": "$DATA/a"},
        "evaluation_sets": {"pets": "$DATA/pets"},
        "write_report": {"title": "$DATA"},
    }
    expanded = {
        "shards": {"a": ["/data/*.tar", "/data/x"], "b": "/home/me/b"},
        "towers": {"name": "a", "folder": "/data/a"},
        "evaluation_sets": {"pets": "/data/pets"},
        "write_report": {"title": "$DATA"},
    }
    assert located(tmp_path, given) == located(tmp_path, {}, **copy.deepcopy(given)) == expanded
    for section, model in {"": config.Config, **dict(config.Config.model_fields.items())}.items():
        fields = model if section == "" else model.annotation
        for key, field in getattr(fields, "model_fields", {}).items():
            if not any(isinstance(mark, Located) for mark in field.metadata):
                continue
            for value, path in (("$DATA/a b", "/data/a b"), ("~/a", "/home/me/a")):
                pair = {key: value}, {key: path}
                start, end = ({section: one} if section else one for one in pair)
                assert located(tmp_path, start) == end
    for value in ("$NOWHERE/a", "${NOWHERE}", "a/$NOWHERE", "~nobody-here/a"):
        with pytest.raises(UserError, match=r"recaption_pairs\.model: there is no (env|home)"):
            located(tmp_path, {"recaption_pairs": {"model": value}})
    monkeypatch.setenv("EMPTY", "")
    for value in ("$EMPTY/a", "${EMPTY}/a"):
        with pytest.raises(UserError, match=r"trusted: the environment variable .* is empty"):
            located(tmp_path, {"trusted": value})
    with pytest.raises(UserError, match=r"variable \$\{NOWHERE:-a\}"):
        located(tmp_path, {"trusted": "${NOWHERE:-a}/b"})
    (tmp_path / "$NOWHERE").mkdir()
    assert located(tmp_path, {"shards": "$NOWHERE/a.tar"})["shards"] == "$NOWHERE/a.tar"


@pytest.mark.parametrize(("given", "expected"), [
    # White space around a path is of the path if there is such a file.
    ({"shards": ["a/*.tar\n", " a.tar"], "captions": " b.csv ", "trusted": "b.csv\n"},
     {"shards": ["a/*.tar", "a.tar"], "captions": " b.csv ", "trusted": "b.csv"}),
    # A folder with a colon is no address, unless there is none.
    ({"shards": ["2024:01/*.tar", "s3:bucket/a.tar"], "captions": "2024:02.csv"},
     {"shards": ["2024:01/*.tar", "s3:bucket/a.tar"], "captions": "2024:02.csv"}),
    ({"shards": ["file:///a%20b/0.tar"], "captions": "file:///c.csv"},
     {"shards": ["/a b/0.tar"], "captions": "/c.csv"}),
])  # fmt: skip
def test_odd_paths(given: dict, expected: dict, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2024:01").mkdir()
    for name in (" b.csv ", "2024:02.csv"):
        (tmp_path / name).touch()
    assert located(tmp_path, given) == expected


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("key", ["trusted", "shards", "captions"])
def test_empty_paths_are_refused(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{key}: the path is empty"):
        located(tmp_path, {key: value})


@pytest.mark.parametrize("value", ["", " ", "..", "a/b", "*"])
def test_names_without_a_letter_are_explained(value: str) -> None:
    with pytest.raises(UserError, match="corpus: this is not of the form") as refusal:
        config.validate({"corpus": value}, "mine.yaml")
    assert config.Config.model_fields["corpus"].description in str(refusal.value)


@pytest.mark.parametrize("content", ["{cut: 0,5}", "{0.5: x}"])
def test_a_comma_in_a_number_is_named(content: str) -> None:
    with pytest.raises(UserError, match=r"select_pairs.*decimals with a point"):
        config.validate({"select_pairs": yaml.safe_load(content)}, "mine.yaml")


@pytest.mark.parametrize("marks", ["“”", "„“", "‘’", "«»", "””"])
@pytest.mark.parametrize("key", ["shards", "trusted", "pairs"])
def test_typographic_quotation_marks_are_named(key: str, marks: str, tmp_path: Path) -> None:
    path = f"{marks[0]}data{marks[1]}"
    with pytest.raises(UserError, match=rf"{key}: .*typographic"):
        located(tmp_path, {key: path})
    (tmp_path / path).mkdir()
    assert located(tmp_path, {key: path})[key].endswith(path)


def test_null_on_the_command_line_is_null(tmp_path: Path) -> None:
    for null in ("null", "Null", "NULL", "~"):
        changes = {"captions": null, "prune_neurons": {"ks": null}, "corpus": "nullify"}
        content = located(tmp_path, {"captions": "a.csv"}, **copy.deepcopy(changes))
        assert content == {"captions": None, "prune_neurons": {"ks": None}, "corpus": "nullify"}


@pytest.mark.parametrize("sign", [*" &{}[]()<>|;$#%*?!'\"`~^:\\\t", " {v2} & "])
def test_names_become_words_of_paths(sign: str) -> None:
    """Signs of shells, patterns and YAML at the beginning, inside and at the end of names."""
    name = f"{sign}my{sign}é{sign}"
    spec = {"name": name, "model": "ViT-B-32", "pretrained": "openai"}
    content = {"corpus": name, "models": [spec], "towers": spec, "evaluation_sets": {name: "a"}}
    checked = config.validate(content, "mine.yaml")
    names = checked.corpus, checked.models[0].name, checked.towers.name, *checked.evaluation_sets
    assert {*names} == {"v2-my-v2-é-v2" if "v2" in sign else "my-é"}


def test_relative_paths_start_at_their_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {
        "shards": ["a/{0..3}.tar", "/data/*.tar", "~/b.tar", "s3://c/d.tar"],
        "captions": "captions.csv",
        "towers": {"name": "a", "folder": "models/a"},
        "models": [{"name": "b", "recipe": "laclip-cc", "checkpoint": "../b.pt"}],
        "evaluation_sets": ["scenes-shape", "wds_mine"],
        "protocols": ["single-prompt", "prompts"],
        "pretrain_towers": {"definition": "ViT-B-32", "start": "b"},
        "filter_captions": {"scorer": "towers/a"},
        "train_two_layer": {"cifar_dir": "cifar"},
        "write_report": {"title": "a/b"},
    }
    inside = located(tmp_path / "mine", given)
    home = str(Path("~/b.tar").expanduser())
    assert inside["shards"] == ["mine/a/{0..3}.tar", "/data/*.tar", home, "s3://c/d.tar"]
    assert inside["captions"] == "mine/captions.csv"
    assert inside["towers"]["folder"] == "mine/models/a"
    assert inside["models"][0]["checkpoint"] == "b.pt"
    assert inside["evaluation_sets"] == ["scenes-shape", "mine/wds_mine"]
    assert inside["protocols"] == ["single-prompt", "mine/prompts"]
    assert inside["filter_captions"] == {"scorer": "mine/towers/a"}
    assert inside["pretrain_towers"] == given["pretrain_towers"]
    assert inside["train_two_layer"] == {"cifar_dir": "mine/cifar"}
    assert inside["write_report"] == given["write_report"]
    named = {"shards": {"a": "a.tar", "b": ["b.tar"]}}
    assert located(tmp_path / "mine", named)["shards"] == {"a": "mine/a.tar", "b": ["mine/b.tar"]}
    assert located(Path("/elsewhere"), given)["captions"] == "/elsewhere/captions.csv"
    del given["models"]
    shards = ["a/{0..3}.tar", "/data/*.tar", home, "s3://c/d.tar"]
    assert located(tmp_path, given) == given | {"shards": shards}
    # Those of the command line and of records start at the working folder.
    folder = tmp_path / "mine"
    assert located(folder, {"shards": "a.tar"}, shards="b.tar")["shards"] == "b.tar"
    assert located(folder, {"shards": "a.tar", "record": {}})["shards"] == "a.tar"


@pytest.mark.parametrize("spelling", ["./a/b", "a/b/", "a//b", "a/./b", "{here}/a/b"])
def test_equal_paths_are_equal_settings_however_they_are_written(tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    path = spelling.format(here=tmp_path)

    def given(path: str) -> dict[str, Any]:
        sets, weights = {"c": path, "d": [path]}, [{"checkpoint": path, "model": "ViT-B-32"}]
        return {"pairs": path, "evaluation_sets": sets, "models": weights,
                "filter_captions": {"scorer": path}}  # fmt: skip

    assert located(tmp_path, given(path)) == located(tmp_path, given("a/b")) == given("a/b")
    assert located(tmp_path, {}, **given(path)) == given("a/b")


@pytest.mark.parametrize(("mine", "command_line", "source"), [
    ({"corrupt_captions": {"rate": 1}}, {}, "mine.yaml"),
    ({"corrupt_captions": {"rates": [0.5]}}, {"corrupt_captions": {"rates": [7]}}, "--config"),
    ({"corpus": "mine"}, {}, "config.yaml"),
])  # fmt: skip
def test_a_mistake_names_the_source_that_has_it(mine, command_line, source):
    content = {"studie": []} if source == "config.yaml" else {}
    content |= mine | command_line
    sources = config.locate(content, {Path("mine.yaml"): mine}, command_line)
    with pytest.raises(UserError, match=f"^{source} has 1 mistake"):
        config.validate(content, sources)


def _settings(model: Settings, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key in type(model).model_fields:
        value = getattr(model, key)
        if isinstance(value, Settings):
            yield from _settings(value, (*path, key))
        else:
            yield (*path, key), value


def _spellings(value: Any) -> list[Any]:
    """Return other ways to write a number, or a list of numbers, in YAML."""
    if isinstance(value, bool):
        return [value]
    if isinstance(value, int):
        return [value, float(value), str(value)]
    if isinstance(value, float):
        whole = [int(value)] if value == int(value) else []
        return [value, repr(value), f"{value:.17e}", *whole]
    if isinstance(value, list | tuple) and all(isinstance(one, int | float) for one in value):
        return [[*spelling] for spelling in zip(*map(_spellings, value), strict=False)]
    return [value] if isinstance(value, str | None) else []


def test_equal_values_are_equal_settings_however_they_are_written() -> None:
    """So `200.0` for 200, `0.001` for 1e-3, and a default that is written out rerun nothing."""
    default = config.Config()
    tried = 0
    for path, value in _settings(default):
        section = default if len(path) == 1 else getattr(default, path[0])
        for spelling in _spellings(value):
            content: Any = spelling
            for key in reversed(path):
                content = {key: content}
            given = config.validate(content, "x")
            written = given if len(path) == 1 else getattr(given, path[0])
            assert given == default, (path, spelling)
            if isinstance(section, Settings):
                assert command_line(written) == command_line(section), (path, spelling)
            tried += 1
    assert tried > 500
