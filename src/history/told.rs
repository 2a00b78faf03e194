//! A block of content in words: its text, or what it is (R31, R270). Pure.

use serde_json::value::RawValue;

use super::{line, literal, visit};
use crate::event::cut;

/// What is told of the text of an attached resource.
const RESOURCE_BYTES_MAX: usize = 2 << 10;

/// What a block says, as it stands between quotes.
pub(super) fn told(block: &RawValue) -> String {
    if let Some(body) = line::block_text(block) {
        return body.to_owned();
    }
    let resource = visit::member(block.get(), "resource");
    let member = |json: &RawValue, name| visit::text_member(json.get(), name).map(|word| cut(&word));
    let of = resource.unwrap_or(block);
    let words = [member(block, "type"), member(of, "name"), member(of, "uri"), member(of, "mimeType")];
    let words: Vec<String> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    let text = resource.and_then(|resource| visit::member(resource.get(), "text")).and_then(visit::body);
    let text = text.map(|body| literal::clipped(body, RESOURCE_BYTES_MAX).unwrap_or_else(|| body.to_owned()));
    let text = text.map_or_else(String::new, |text| format!("\\n{text}"));
    format!("[{}]{text}", literal::of(&words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_by_what_it_is() {
        for (block, want) in [
            (r#"{"type":"text","text":"a\nb"}"#, r"a\nb"),
            (r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#, "[image image/png]"),
            (r#"{"type":"resource_link","name":"n","uri":"file:///x"}"#, "[resource_link n file:///x]"),
            (
                r#"{"type":"resource","resource":{"uri":"file:///y","text":"t\""}}"#,
                r#"[resource file:///y]\nt\""#,
            ),
            ("7", "[]"),
        ] {
            assert_eq!(told(&RawValue::from_string(block.to_owned()).unwrap()), want);
        }
    }
}
