from hedgerow.storage.events.embedded.part import Part, parse_part, select_uncovered


def parse(name: str) -> Part:
    part = parse_part(name)
    assert part is not None
    return part


def test_names_of_parts() -> None:
    assert parse("202603_1_3_1")[:5] == ("202603", 1, 3, 1, 0)
    assert parse("all_1_1_0_7")[:5] == ("all", 1, 1, 0, 7)
    assert parse("202603_4_4_0").is_inserted
    assert parse("all_4_4_1").is_inserted
    assert not parse("202603_4_5_1").is_inserted
    assert not parse("202603_4_4_0_5").is_inserted
    for name in ("detached", "tmp_insert_202603_2_2_0", "mutation_3.txt", "source_202603_1_1_0"):
        assert parse_part(name) is None


def test_a_part_covers_those_that_it_was_made_from() -> None:
    merged, mutated = parse("202603_1_3_1"), parse("202603_1_3_1_9")
    assert merged.covers(parse("202603_2_2_0"))
    assert mutated.covers(merged)
    assert not merged.covers(mutated)
    assert not merged.covers(merged)
    assert not merged.covers(parse("202603_4_4_0"))
    assert not merged.covers(parse("202604_2_2_0"))
    assert not merged.covers(parse("202603_2_2_0_9"))


def test_parts_that_were_merged_or_mutated_are_covered() -> None:
    names = ["202603_1_1_0", "202603_2_2_0", "202603_1_2_1", "202603_1_2_1_4", "202603_3_3_0"]
    names += ["202604_1_1_0", "202603_5_9_1", "202603_6_6_0", "202603_10_10_0"]
    found = select_uncovered(map(parse, names))
    assert {part.name for part in found} == {
        "202603_1_2_1_4",
        "202603_3_3_0",
        "202603_5_9_1",
        "202603_10_10_0",
        "202604_1_1_0",
    }
