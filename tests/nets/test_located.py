"""Paths of a configuration, shown without steps to parent folders."""

import pytest

from nets import DataError
from nets.data import open_source
from nets.data.sources.located import located


def test_a_path_without_steps_up_stays_as_it_is(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert located(tmp_path, "link/a..b.txt") == tmp_path / "link" / "a..b.txt"
    assert located(tmp_path, "/absolute") == located(tmp_path / "x", "/absolute")


def test_a_step_up_leads_where_the_system_goes(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "a" / "file").write_text("x")
    assert located(tmp_path, "link/../file") == tmp_path / "a" / "file"
    assert located(tmp_path, "link/../file").read_text() == "x"
    assert located(tmp_path / "a" / "b", "../../c/d") == tmp_path / "c" / "d"
    assert located(tmp_path, "a/../nul\0") == tmp_path / "nul\0"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("images", {"source": "../list.txt"}),
        ("idx", {"images": "../list.txt", "labels": "x"}),
        ("cifar10", {"files": ["../list.txt"]}),
        ("text", {"source": "../list.txt"}),
    ],
)
def test_an_error_about_a_file_shows_no_steps_up(tmp_path, kind, options):
    (tmp_path / "here").mkdir()
    with pytest.raises(DataError) as caught:
        open_source({"format": kind, **options}, tmp_path / "here")
    assert f"{tmp_path}/list.txt: " in str(caught.value)


def test_an_image_of_a_list_shows_no_steps_up(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "list.txt").write_text("../a.png 0\n../b.png 1\n")
    with pytest.raises(DataError, match=f"^{tmp_path}/a.png: no such file"):
        open_source({"format": "images", "source": "list.txt"}, tmp_path / "here")
