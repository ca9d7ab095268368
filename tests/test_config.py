import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from regard.config import did_you_mean, from_table, load_json, load_toml, one_of, to_table
from regard.errors import ConfigError
from regard.models import DecoderConfig
from regard.models.presets import PRESETS


@dataclass(frozen=True, kw_only=True)
class Paint:
    colour: Literal["red", "green"]
    layers: int = 1

    def __post_init__(self) -> None:
        if self.layers > 9:
            raise ConfigError(f"layers {self.layers} is too many")


@dataclass(frozen=True, kw_only=True)
class House:
    rooms: int
    height: float = 2.5
    name: str = "home"
    garden: bool = False
    floor: int | None = None
    people: tuple[str, ...] = ()
    door: Paint | None = None
    walls: tuple[Paint, ...] = ()
    pets: list[str] = field(default_factory=list, init=False)


def refused(raw: dict[str, Any]) -> str:
    """The message with which a table is refused, which is one line."""
    with pytest.raises(ConfigError) as caught:
        from_table(House, raw, "house.toml")
    message = str(caught.value)
    assert message.startswith("house.toml: ")
    assert "\n" not in message
    return message.removeprefix("house.toml: ")


# ---- reading --------------------------------------------------------------------------------------------------


def test_missing_keys_have_their_defaults() -> None:
    assert from_table(House, {"rooms": 3}, "house.toml") == House(rooms=3)


def test_every_kind_of_value_is_read() -> None:
    raw = {
        "rooms": 3,
        "height": 2.75,
        "name": "hut",
        "garden": True,
        "floor": 2,
        "people": ["Ada", "Alan"],
        "door": {"colour": "red", "layers": 2},
        "walls": [{"colour": "green"}, {"colour": "red"}],
    }
    assert from_table(House, raw, "house.toml") == House(
        rooms=3,
        height=2.75,
        name="hut",
        garden=True,
        floor=2,
        people=("Ada", "Alan"),
        door=Paint(colour="red", layers=2),
        walls=(Paint(colour="green"), Paint(colour="red")),
    )


def test_a_whole_number_is_a_number() -> None:
    height = from_table(House, {"rooms": 3, "height": 3}, "house.toml").height
    assert isinstance(height, float)
    assert height == 3.0


def test_nothing_is_read_where_nothing_is_allowed() -> None:
    assert from_table(House, {"rooms": 3, "floor": None, "door": None}, "house.toml") == House(rooms=3)


# ---- refusing -------------------------------------------------------------------------------------------------


def test_an_unknown_key_suggests_the_nearest() -> None:
    assert refused({"rooms": 3, "gardn": True}) == "unknown key 'gardn' - did you mean 'garden'?"


def test_an_unknown_key_without_a_near_one() -> None:
    assert refused({"rooms": 3, "zzz": 1}) == "unknown key 'zzz'"


def test_a_computed_field_cannot_be_given() -> None:
    assert refused({"rooms": 3, "pets": []}) == "unknown key 'pets'"


def test_a_missing_key_is_named() -> None:
    assert refused({"name": "hut"}) == "key 'rooms' is missing"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rooms", "3", "'rooms' must be a whole number, not '3'"),
        ("rooms", 3.0, "'rooms' must be a whole number, not 3.0"),
        ("rooms", True, "'rooms' must be a whole number, not True"),
        ("rooms", None, "'rooms' must be a whole number, not None"),
        ("height", "tall", "'height' must be a number, not 'tall'"),
        ("height", False, "'height' must be a number, not False"),
        ("height", 10**400, "'height' must be a number of at most 40 digits"),
        ("name", 7, "'name' must be a string, not 7"),
        ("garden", 1, "'garden' must be true or false, not 1"),
        ("floor", "first", "'floor' must be a whole number, not 'first'"),
        ("people", "Ada", "'people' must be a list, not 'Ada'"),
        ("people", ["Ada", 7], "'people[1]' must be a string, not 7"),
        ("door", "red", "'door' must be a table, not 'red'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(key: str, value: object, message: str) -> None:
    assert refused({"rooms": 3} | {key: value}) == message


@pytest.mark.parametrize(
    ("door", "message"),
    [
        ({"colour": "reed"}, "[door] 'colour' must be one of red, green, not 'reed' - did you mean 'red'?"),
        ({"colour": 7}, "[door] 'colour' must be one of red, green, not 7"),
        ({"colour": []}, "[door] 'colour' must be one of red, green, not []"),
        ({"color": "red"}, "[door] unknown key 'color' - did you mean 'colour'?"),
        ({}, "[door] key 'colour' is missing"),
        ({"colour": "red", "layers": 10}, "[door] layers 10 is too many"),
    ],
)
def test_a_nested_table_is_read_as_strictly(door: object, message: str) -> None:
    assert refused({"rooms": 3, "door": door}) == message


def test_a_table_in_a_list_is_named_by_its_index() -> None:
    walls = [{"colour": "red"}, {"colour": "blue"}]
    assert refused({"rooms": 3, "walls": walls}) == "[walls[1]] 'colour' must be one of red, green, not 'blue'"


# ---- round trip -----------------------------------------------------------------------------------------------


def test_to_table_is_the_inverse_of_from_table() -> None:
    house = House(
        rooms=3, people=("Ada",), door=Paint(colour="red"), walls=(Paint(colour="green"), Paint(colour="red"))
    )
    raw = to_table(house)
    assert raw["people"] == ["Ada"]
    assert raw["door"] == {"colour": "red", "layers": 1}
    assert raw["walls"][0] == {"colour": "green", "layers": 1}
    assert "pets" not in raw
    assert from_table(House, raw, "house.toml") == house


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_a_round_trip(name: str) -> None:
    assert from_table(type(PRESETS[name]), to_table(PRESETS[name]), name) == PRESETS[name]


def test_a_misspelled_model_setting_is_found() -> None:
    raw = to_table(PRESETS["gpt2"]) | {"drop_out": 0.1}
    with pytest.raises(ConfigError, match=r"^config\.json: unknown key 'drop_out' - did you mean 'dropout'\?$"):
        from_table(DecoderConfig, raw, "config.json")


def test_a_rule_of_the_settings_names_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^config\.json: heads must be at least 1, not 0$"):
        from_table(DecoderConfig, to_table(PRESETS["gpt2"]) | {"heads": 0}, "config.json")


# ---- files ----------------------------------------------------------------------------------------------------


def test_json_and_toml_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "Hütte", "door": {"colour": "red"}}', encoding="utf-8")
    (tmp_path / "a.toml").write_text('name = "Hütte"\n[door]\ncolour = "red"\n', encoding="utf-8")
    expected = {"name": "Hütte", "door": {"colour": "red"}}
    assert load_json(tmp_path / "a.json") == load_toml(tmp_path / "a.toml") == expected


@pytest.mark.parametrize(
    ("load", "content", "message"),
    [
        (load_json, b'{"rooms": 3,\n "name"', r"is not valid JSON \(.*line 2 column 8.*\)"),
        (load_json, b"", r"is not valid JSON \(.*\)"),
        (load_json, b"\xff\xfe", r"is not valid JSON \(.*utf-8.*\)"),
        (load_json, b"[" * 100_000, r"is not valid JSON \(.*\)"),
        (load_json, b"[1, 2]", "must be a table of keys, not a list"),
        (load_json, b'"text"', "must be a table of keys, not a str"),
        (load_json, b"null", "must be a table of keys, not a NoneType"),
        (load_toml, b"rooms = 3\nrooms = 4\n", r"is not valid TOML \(.*line 2.*\)"),
        (load_toml, b"rooms 3", r"is not valid TOML \(.*line 1.*\)"),
        (load_toml, b"\xff", r"is not valid TOML \(.*utf-8.*\)"),
    ],
)
def test_a_broken_file_is_one_line_that_names_it(load: Any, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.file"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^[^\n]*broken\\.file: {message}$") as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("load", [load_json, load_toml])
def test_a_file_that_cannot_be_read_says_why(load: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read \(No such file or directory\)$"):
        load(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)$"):
        load(tmp_path)


# ---- suggestions ----------------------------------------------------------------------------------------------


def test_did_you_mean() -> None:
    assert did_you_mean("rotery", ["learned", "rotary"]) == " - did you mean 'rotary'?"
    assert did_you_mean("xyz", ["learned", "rotary"]) == ""


def test_one_of_names_the_nearest_or_else_all() -> None:
    one_of("red", ["red", "green"], "colour")
    with pytest.raises(ConfigError, match=r"^unknown colour 'grean' - did you mean 'green'\?$"):
        one_of("grean", ["red", "green"], "colour")
    with pytest.raises(ConfigError, match=r"^unknown colour 'blue' - known: red, green$"):
        one_of("blue", ["red", "green"], "colour")


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"a": 1, "a": 2}', "'a' appears twice"), ('{"a": NaN}', "NaN"), ('{"a": -Infinity}', "Infinity")],
)
def test_json_without_duplicate_keys_and_nan(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_json(tmp_path / "x.json")


# ---- files of strangers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_json, load_toml])
def test_only_regular_files_of_bounded_size_are_read(load: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(ConfigError, match=rf"{name}: cannot be read \(it is not a regular file\)$"):
            load(tmp_path / name)
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    with pytest.raises(ConfigError, match=r"large: cannot be read \(it has more than [\d,]+ bytes\)$"):
        load(tmp_path / "large")


@pytest.mark.parametrize(
    ("load", "content", "message"),
    [
        (load_json, f'{{"a": {"7" * 400}}}', "a number has 400 digits, more than 40"),
        (load_json, f'{{"a": {"7" * 5000}}}', "a number has 5,000 digits, more than 40"),
        (load_json, '{"a": -1e999}', "the number -1e999 is too large"),
        (load_json, "{" + ", ".join(f'"k{i % 59_999}": 1' for i in range(60_000)) + "}", "key 'k0' appears twice"),
        (load_toml, "a = " + "[" * 100_000, "recursion"),
        (load_toml, f"{'a.' * 40_000}b = 1", "a dotted key has more than 32 parts"),
        (load_toml, f"x = {{ {'a . ' * 40_000}b = 1 }}", "a dotted key has more than 32 parts"),
        (load_toml, f"""{'"a" . ' * 40_000}b = 1""", "a dotted key has more than 32 parts"),
        (load_toml, f"[{'a.' * 40_000}b]", "a dotted key has more than 32 parts"),
    ],
    ids=range(9),
)
def test_a_hostile_file_takes_no_time(load: Any, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "hostile").write_text(content)
    begin = time.process_time()
    with pytest.raises(ConfigError, match=rf"^[^\n]*hostile: is not valid \w+ \([^\n]*{message}[^\n]*\)$"):
        load(tmp_path / "hostile")
    assert time.process_time() - begin < 5


def test_looking_for_dotted_keys_takes_no_time(tmp_path: Path) -> None:
    for text in ("a" * 500_000, '"' * 500_000, "a " * 250_000, "a. " * 30 + "a" * 500_000, "'a\\n" * 100_000):
        (tmp_path / "hostile").write_text(text)
        begin = time.process_time()
        with pytest.raises(ConfigError):
            load_toml(tmp_path / "hostile")
        assert time.process_time() - begin < 5


@pytest.mark.parametrize("key", ["rooms", "height", "floor", "name"])
def test_a_number_beyond_measure(key: str) -> None:
    assert refused({"rooms": 3, key: 10**4000}) == f"'{key}' must be a number of at most 40 digits"
