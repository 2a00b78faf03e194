//! Every requirement that is built has a test that names it: `R` and its number in the doc comment of the test.

use std::{collections::BTreeSet, ops::RangeInclusive};

use crate::source::Source;

/// The requirements that are built.
const BUILT: &[RangeInclusive<u16>] = &[
    1..=69,
    72..=76,
    82..=87,
    90..=90,
    92..=118,
    134..=135,
    140..=141,
    148..=148,
    170..=241,
    243..=243,
    246..=246,
    248..=259,
    261..=261,
    265..=266,
    270..=270,
    273..=281,
    283..=285,
    289..=289,
    295..=295,
];

/// Those of them that no test names yet. It only shrinks.
const PENDING: &[u16] = &[];

/// The requirements that doc comments of tests name.
fn tested() -> BTreeSet<u16> {
    Source::all(&["src", "tests"]).iter().flat_map(of_tests).collect()
}

fn of_tests(source: &Source) -> BTreeSet<u16> {
    let (mut named, mut docs, mut is_test) = (BTreeSet::new(), BTreeSet::new(), false);
    for line in source.text.lines().map(str::trim_start) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.extend(requirements(doc));
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            if is_test {
                named.append(&mut docs);
            }
            docs.clear();
            is_test = false;
        }
    }
    named
}

fn requirements(doc: &str) -> impl Iterator<Item = u16> + '_ {
    let words = doc.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| word.strip_prefix('R')?.parse().ok())
}

#[test]
fn every_requirement_that_is_built_has_a_test() {
    let tested = tested();
    let open: Vec<u16> = BUILT.iter().cloned().flatten().filter(|number| !tested.contains(number)).collect();
    let missing: Vec<_> = open.iter().filter(|number| !PENDING.contains(number)).collect();
    let gained: Vec<_> = PENDING.iter().filter(|number| !open.contains(number)).collect();
    assert!(missing.is_empty(), "no test names {missing:?} in its doc comment");
    assert!(gained.is_empty(), "{gained:?} gained a test; PENDING is now {open:?}");
}

#[test]
fn only_doc_comments_of_tests_count() {
    let text = "/// R1: it is.\n#[test]\nfn a() {}\n/// R2.\nfn b() {}\n/// R3, R4 (XR5, R6b).\n#[tokio::test]\n\
        async fn c() {}";
    let source = Source { path: "src/x.rs".into(), text: text.into(), code: String::new() };
    assert_eq!(of_tests(&source), BTreeSet::from([1, 3, 4]));
}
