"""Folders of images have the classes that their user made, by name, and whatever is passed over is
counted and reported."""

import os
import re

import numpy as np
import pytest

from nets import DataError
from nets.data import folder_names, open_source
from nets.data.sources.class_folders import images_below
from nets.data.sources.passed_over import PassedOver

pillow = pytest.importorskip("PIL.Image")
CAFE = "caf\u00e9"  # NFC
CAFE_OF_A_MAC = "cafe\u0301"  # NFD


def picture(path, level=90):
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow.new("RGB", (8, 8), (level, 120, 90)).save(path)
    return path


def classes(folder, *names, images=2):
    for level, name in enumerate(names):
        for at in range(images):
            picture(folder / name / f"{at}.png", 40 * level)


def opened(folder, source, **options):
    return open_source({"format": "images", "source": source, **options}, folder)


def labels(source):
    return source.read(np.arange(len(source)))[1].tolist()


@pytest.fixture
def photos(tmp_path):
    """Two classes, and what file managers, notebooks and archives leave in such a folder."""
    folder = tmp_path / "photos"
    classes(folder, "oak", "pine")
    for stray in (".ipynb_checkpoints", "__MACOSX", "@eaDir"):
        picture(folder / stray / "0.png")
    (folder / "birch").mkdir()
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (folder / "notes.txt").write_text("no image")
    (folder / "oak" / "._0.png").write_bytes(b"\0\5\26\7" + bytes(60))
    (folder / "oak" / "6.jfif").write_bytes(b"\xff\xd8")
    picture(folder / "oak" / "more" / "7.png")
    return folder


@pytest.mark.parametrize("stray", [".ipynb_checkpoints", "__MACOSX", "@eaDir", "birch"])
def test_hidden_folders_folders_of_the_system_and_empty_ones_are_no_classes(photos, stray):
    source = opened(photos.parent, "photos")
    assert stray not in source.class_names
    assert (source.class_names, source.num_classes) == (("oak", "pine"), 2)
    assert labels(source) == [0, 0, 1, 1]


def test_each_file_and_folder_that_is_passed_over_is_counted_and_named_with_the_reason(photos):
    (line,) = opened(photos.parent, "photos").told
    assert line.startswith(f"{photos}: passed over: ")
    for part in (
        "hidden files and folders: 3 (.DS_Store, .ipynb_checkpoints, oak/._0.png)",
        "folders of a file manager or an archive: 2 (@eaDir, __MACOSX)",
        "files outside the folders of classes: 1 (notes.txt)",
        "folders without an image: 1 (birch)",
        "folders inside the folder of a class: 1 (oak/more)",
    ):
        assert part in line
    assert re.search(
        r"files without the suffix of an image, \.bmp .*\.webp: 1 \(oak/6\.jfif\)", line
    )


def test_nothing_is_reported_where_every_file_is_taken(tmp_path):
    classes(tmp_path / "set", "oak", "pine")
    assert opened(tmp_path, "set").told == ()


def test_a_name_with_a_line_break_stays_on_its_line(tmp_path):
    classes(tmp_path / "a\nb", "oak", "Oak\n", "oak\n")
    (tmp_path / "a\nb" / "warning\x1b: \n").mkdir()
    source = opened(tmp_path, "a\nb", classes=["oak", "Oak\n", "oak\n", "new\n"])
    assert len(source.told) == 3
    assert "".join(source.told).isprintable()


def test_only_the_first_names_of_many_are_shown(photos):
    for at in range(9):
        (photos / "pine" / f"{at}.txt").write_text("")
    (line,) = opened(photos.parent, "photos").told
    assert ".webp: 10 (oak/6.jfif, pine/0.txt, pine/1.txt and 7 more)" in line


def test_a_folder_has_the_labels_of_the_named_classes_even_if_one_is_missing_or_new(tmp_path):
    classes(tmp_path / "val", "ash", "pine")
    source = opened(tmp_path, "val", classes=["oak", "pine"])
    assert (labels(source), source.class_names, source.num_classes) == ([1, 1], ("oak", "pine"), 2)
    assert source.told == (
        f"{tmp_path}/val: passed over: folders with the name of no class: 1 (ash)",
        f"{tmp_path}/val: found no image of 1 of 2 classes: oak",
    )


def test_a_folder_without_any_of_the_named_classes_is_refused_with_what_it_has(tmp_path):
    classes(tmp_path / "val", "Oak")
    with pytest.raises(DataError) as caught:
        opened(tmp_path, "val", classes=["oak", "pine"])
    first, *others = caught.value.problems
    assert first == (
        f"{tmp_path}/val: found no image of a class, expected a folder of images per class: "
        "oak, pine"
    )
    assert any("'Oak' and 'oak' differ only in case" in line for line in others)


def test_a_class_that_is_named_twice_is_refused(tmp_path):
    classes(tmp_path / "val", "oak")
    with pytest.raises(DataError, match="val: classes: found 'pine' 2 times, expected each class"):
        opened(tmp_path, "val", classes=["oak", "pine", "pine"])


def test_classes_of_a_list_are_refused(tmp_path):
    picture(tmp_path / "0.png")
    (tmp_path / "list.txt").write_text("0.png 0\n")
    with pytest.raises(DataError, match="classes: found oak, but the source is not a folder"):
        opened(tmp_path, "list.txt", classes=["oak"])


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("Oak", "oak"), "'Oak' and 'oak' differ only in case or Unicode form"),
        ((CAFE, CAFE_OF_A_MAC), r"'cafe\u0301' and 'caf\xe9' differ only in case or Unicode form"),
        (("CAF\u00c9", CAFE_OF_A_MAC), "differ only in case or Unicode form"),
    ],
)
def test_classes_whose_names_differ_only_in_case_or_unicode_form_are_reported(
    tmp_path, names, shown
):
    classes(tmp_path / "set", *names)
    if len(list((tmp_path / "set").iterdir())) < len(names):
        pytest.skip("this file system takes the two names for one")
    (line,) = opened(tmp_path, "set").told
    assert shown in line
    classes(tmp_path / "train", names[0])
    classes(tmp_path / "val", names[1], "x")
    with pytest.raises(DataError, match=re.escape(shown)):
        opened(tmp_path, "val", classes=(names[0],))


def test_links_in_a_circle_end_and_links_to_nothing_are_passed_over(photos):
    (photos / "oak" / "again").symlink_to(photos)
    (photos / "loop").symlink_to("loop")
    (photos / "pine" / "gone.png").symlink_to("nowhere")
    (photos / "pine" / "round.png").symlink_to("round.png")
    (line,) = opened(photos.parent, "photos").told
    why = "links to nothing or in a circle, and other things that are no files"
    assert f"{why}: 3 (loop, pine/gone.png, pine/round.png)" in line
    passed = PassedOver(photos)
    found = [str(path.relative_to(photos)) for path in images_below(photos, passed)]
    assert found == ["oak/0.png", "oak/1.png", "oak/more/7.png", "pine/0.png", "pine/1.png"]
    assert "links to folders that are searched already: 1 (oak/again)" in passed.told[0]


def test_a_linked_folder_of_images_is_searched_once(tmp_path):
    picture(tmp_path / "kept" / "0.png")
    (tmp_path / "f").mkdir()
    for name in ("a", "b"):
        (tmp_path / "f" / name).symlink_to(tmp_path / "kept")
    passed = PassedOver(tmp_path / "f")
    assert list(images_below(tmp_path / "f", passed)) == [tmp_path / "f" / "a" / "0.png"]
    assert "(b)" in passed.told[0]


def test_a_class_that_this_user_may_not_read_is_refused_by_name(photos):
    (photos / "pine").chmod(0)
    try:
        if os.access(photos / "pine", os.R_OK):
            pytest.skip("this user may read every folder")
        with pytest.raises(DataError, match=f"{photos}/pine: cannot be read: Permission denied"):
            opened(photos.parent, "photos")
        passed = PassedOver(photos)
        assert len(list(images_below(photos, passed))) == 3
        assert "folders that cannot be read: 1 (pine)" in passed.told[0]
    finally:
        (photos / "pine").chmod(0o755)


def test_a_folder_with_one_class_after_the_other_empty_says_what_it_has(tmp_path):
    (tmp_path / "set" / "oak").mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        opened(tmp_path, "set")
    assert caught.value.problems == [
        f"{tmp_path}/set: found 1 folder without an image, expected a folder of images per class",
        f"{tmp_path}/set: passed over: folders without an image: 1 (oak)",
    ]


def test_the_names_of_a_folder_are_those_that_the_configuration_gives_it(photos):
    config = {"format": "images", "source": "photos"}
    assert folder_names(config, photos.parent, (), photos) == ("oak", "pine")
    named = {**config, "classes": ["pine", "oak"]}
    assert folder_names(named, photos.parent, (), photos) == ("pine", "oak")
    assert folder_names({"format": "digits"}, photos.parent, (), photos) == ()


# lists of images


def test_a_leading_slash_in_a_list_begins_at_root_folder_as_in_caffe(tmp_path):
    picture(tmp_path / "images" / "oak" / "0.png")
    (tmp_path / "list.txt").write_text("/oak/0.png 1\n")
    assert labels(opened(tmp_path, "list.txt", root_folder="images")) == [1]
    assert labels(opened(tmp_path, "list.txt", root_folder=f"{tmp_path}/images/")) == [1]
    with pytest.raises(DataError, match=r"^/oak/0.png: no such file"):
        opened(tmp_path, "list.txt")
    (tmp_path / "whole.txt").write_text(f"{tmp_path}/images/oak/0.png 1\n")
    assert labels(opened(tmp_path, "whole.txt")) == [1]


# whole paths


@pytest.mark.parametrize("data", [b"", b"no image", b"\xff\xd8\xff\xe0 no", b"GIF89a", b"II*\0"])
def test_a_damaged_file_is_named_by_its_whole_path_and_never_by_an_address(tmp_path, data):
    classes(tmp_path / "set", "oak", "pine")
    (tmp_path / "set" / "pine" / "1.png").write_bytes(data)
    with pytest.raises(DataError) as caught:
        labels(opened(tmp_path, "set"))
    assert str(caught.value).startswith(f"{tmp_path}/set/pine/1.png: ")
    assert not re.search("BytesIO|0x[0-9a-f]", str(caught.value))


def test_an_image_of_another_size_is_named_by_its_whole_path(tmp_path):
    classes(tmp_path / "set", "oak", "pine")
    pillow.new("RGB", (9, 9)).save(tmp_path / "set" / "pine" / "1.png")
    with pytest.raises(DataError, match=f"^{tmp_path}/set/pine/1.png: found an image of shape"):
        labels(opened(tmp_path, "set"))
