//! Holds a parsed file against the table of knobs and notes everything that is wrong with it.
//!
//! Never stops at the first: a file is mended in one go. Pure.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeInteger, DeString, DeTable, DeValue},
};

use super::{
    DEMO,
    finding::{Findings, did_you_mean},
    knob::{AGENT, AGENT_REQUIRED, CONFIG, HOST, Knob, LIMITS, Takes, quoted},
};

type Value<'i> = Spanned<DeValue<'i>>;

/// Everything that is wrong with the file.
pub fn check(root: &DeTable<'_>) -> Findings {
    let mut findings = Findings::default();
    table(&mut findings, "", root, CONFIG);
    default_agent(&mut findings, root);
    findings
}

fn table(findings: &mut Findings, path: &str, table: &DeTable<'_>, knobs: &[Knob]) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = join(path, name);
        match knobs.iter().find(|knob| knob.key == name.as_ref()) {
            Some(knob) => held(findings, &path, value, knob.takes),
            None => findings.add(key.span(), path, unknown(name, knobs)),
        }
    }
}

fn unknown(name: &str, knobs: &[Knob]) -> String {
    let mut problem = "no such key".to_owned();
    let homes = [
        ("outside any table", CONFIG),
        ("in [limits]", LIMITS),
        ("in [host]", HOST),
        ("in [agent.NAME]", AGENT),
    ];
    match homes.iter().find(|(_, keys)| keys.iter().any(|knob| knob.key == name)) {
        Some((home, _)) => problem += &format!(" here; it stands {home}"),
        None => problem += &did_you_mean(name, knobs.iter().map(|knob| knob.key)),
    }
    problem + &format!(" (allowed: {})", quoted(knobs.iter().map(|knob| knob.key)))
}

fn held(findings: &mut Findings, path: &str, value: &Value<'_>, takes: Takes) {
    let span = value.span();
    match (takes, value.get_ref()) {
        (Takes::Text | Takes::Agent, DeValue::String(text)) => no_nul(findings, span, path, text),
        (Takes::Program, DeValue::String(text)) => program(findings, span, path, text),
        (Takes::Switch, DeValue::Boolean(_)) => {}
        (Takes::Word(words), DeValue::String(text)) if !words.contains(&text.as_ref()) => {
            let near = did_you_mean(text, words.iter().copied());
            findings.add(span, path, format!("expected {takes}, found {text:?}{near}"));
        }
        (Takes::Word(_), DeValue::String(_)) => {}
        (Takes::Whole { min, max, .. }, DeValue::Integer(number)) => {
            if !whole(number).is_some_and(|n| (min..=max).contains(&n)) {
                findings.add(span, path, format!("expected {takes}, found {number}"));
            }
        }
        (Takes::Texts | Takes::VariableNames, DeValue::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                text_of_list(findings, &format!("{path}[{index}]"), item, takes);
            }
        }
        (Takes::Variables, DeValue::Table(variables)) => {
            for (name, value) in variables {
                let path = join(path, name.get_ref());
                variable_name(findings, name.span(), &path, name.get_ref());
                held(findings, &path, value, Takes::Text);
            }
        }
        (Takes::Table(knobs), DeValue::Table(inner)) => table(findings, path, inner, knobs),
        (Takes::Agents(knobs), DeValue::Table(agents)) => {
            for (name, value) in agents {
                agent(findings, path, name, value, knobs);
            }
        }
        (_, found) => findings.add(span, path, format!("expected {takes}, found {}", described(found))),
    }
}

fn agent(
    findings: &mut Findings,
    path: &str,
    name: &Spanned<DeString<'_>>,
    value: &Value<'_>,
    knobs: &[Knob],
) {
    let path = join(path, name.get_ref());
    if !is_agent_name(name.get_ref()) {
        let allowed = "the name of an agent is made of the letters a to z, digits, `-`, `_` and `.`";
        findings.add(name.span(), &path, allowed);
    }
    let DeValue::Table(keys) = value.get_ref() else {
        let found = described(value.get_ref());
        return findings.add(
            value.span(),
            &path,
            format!("expected a table of its own, [{path}], found {found}"),
        );
    };
    table(findings, &path, keys, knobs);
    for required in AGENT_REQUIRED {
        if !keys.contains_key(*required) {
            findings.add(name.span(), join(&path, required), "is missing; every agent names its program");
        }
    }
}

/// Whether an agent may be called that.
pub fn is_agent_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn default_agent(findings: &mut Findings, root: &DeTable<'_>) {
    let Some(value) = root.get("default_agent") else { return };
    let DeValue::String(wanted) = value.get_ref() else { return };
    let mut known: Vec<&str> = vec![DEMO];
    if let Some(DeValue::Table(agents)) = root.get("agent").map(Spanned::get_ref) {
        known.extend(agents.keys().map(|name| name.get_ref().as_ref()));
    }
    if !known.contains(&wanted.as_ref()) {
        let near = did_you_mean(wanted, known.iter().copied());
        let agents = quoted(known.into_iter());
        let problem = format!("there is no agent {wanted:?}{near} (known: {agents}; add [agent.NAME])");
        findings.add(value.span(), "default_agent", problem);
    }
}

fn text_of_list(findings: &mut Findings, path: &str, item: &Value<'_>, takes: Takes) {
    match (takes, item.get_ref()) {
        (Takes::VariableNames, DeValue::String(name)) => variable_name(findings, item.span(), path, name),
        _ => held(findings, path, item, Takes::Text),
    }
}

fn program(findings: &mut Findings, span: Range<usize>, path: &str, text: &str) {
    no_nul(findings, span.clone(), path, text);
    if text.is_empty() {
        findings.add(span, path, format!("expected {}, found an empty text", Takes::Program));
    } else if text.starts_with(['~', '$']) || (text.contains('/') && !text.starts_with('/')) {
        // A program beside the session's own files is for whoever wrote those files to choose.
        let problem = format!("expected {}, found {text:?}; `~` and `$` are not expanded", Takes::Program);
        findings.add(span, path, problem);
    }
}

fn variable_name(findings: &mut Findings, span: Range<usize>, path: &str, name: &str) {
    if name.is_empty() || name.contains(['=', '\0']) {
        findings.add(span, path, format!("{name:?} cannot be the name of an environment variable"));
    }
}

fn no_nul(findings: &mut Findings, span: Range<usize>, path: &str, text: &str) {
    if text.contains('\0') {
        findings.add(span, path, "expected a text without NUL characters");
    }
}

fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) if text.chars().count() > 40 => "a long text".to_owned(),
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(switch) => switch.to_string(),
        DeValue::Datetime(date) => format!("the date {date}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn join(path: &str, key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let key = if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
