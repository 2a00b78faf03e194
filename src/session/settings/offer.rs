//! What a peer offers to be set: modes, options, and models of the older kind. Pure.
//!
//! Read leniently and kept as it was written, because it is shown to hosts unchanged (R175).

use serde_json::value::RawValue;

use super::knob::Knob;
use crate::wire::{parse::text, patch::Object};

/// What a peer offers.
#[derive(Debug, Default)]
pub struct Offer {
    /// `modes`.
    pub modes: Known<Choices>,
    /// `models`, which the protocol once had.
    pub models: Known<Choices>,
    /// `configOptions`.
    pub options: Known<Vec<Knob>>,
}

/// What is known of one kind of setting.
#[derive(Debug, Default)]
pub enum Known<T> {
    /// A peer took a session up without a word about it.
    #[default]
    Unknown,
    /// It has none.
    Nothing,
    /// These.
    Listed(T),
}

impl<T> Known<T> {
    fn learn(&mut self, said: Option<&RawValue>, fresh: bool, read: impl Fn(&RawValue) -> Option<T>) {
        match said.filter(|said| said.get() != "null") {
            Some(said) => *self = read(said).map_or(Self::Nothing, Self::Listed),
            None if fresh => *self = Self::Nothing,
            // A session that is taken up has what it had.
            None => {}
        }
    }

    /// The list, when there is one.
    pub fn listed(&self) -> Option<&T> {
        if let Self::Listed(list) = self { Some(list) } else { None }
    }

    /// The same, to be changed.
    pub fn listed_mut(&mut self) -> Option<&mut T> {
        if let Self::Listed(list) = self { Some(list) } else { None }
    }
}

impl Offer {
    /// Learns from the result that set the session up: of a session that is new, or of one that is taken up again.
    pub fn learn(&mut self, result: &Object, fresh: bool) {
        self.modes.learn(result.get("modes"), fresh, |raw| Choices::of(raw, &MODES));
        self.models.learn(result.get("models"), fresh, |raw| Choices::of(raw, &MODELS));
        self.options.learn(result.get("configOptions"), fresh, knobs);
    }

    /// Learns from an answer or an update that holds the complete list. Whether it does.
    pub fn learn_options(&mut self, from: &Object) -> bool {
        let list = from.get("configOptions").and_then(knobs);
        let learnt = list.is_some();
        self.options = list.map_or_else(|| std::mem::take(&mut self.options), Known::Listed);
        learnt
    }

    /// The option of that id.
    pub fn knob(&self, id: &str) -> Option<&Knob> {
        self.options.listed()?.iter().find(|knob| knob.id() == id)
    }

    /// The same, to be changed.
    pub fn knob_mut(&mut self, id: &str) -> Option<&mut Knob> {
        self.options.listed_mut()?.iter_mut().find(|knob| knob.id() == id)
    }

    /// The options, as they are shown.
    pub fn knobs(&self) -> &[Knob] {
        self.options.listed().map_or(&[], Vec::as_slice)
    }
}

fn knobs(raw: &RawValue) -> Option<Vec<Knob>> {
    let all: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    Some(all.into_iter().map(Knob::of).collect())
}

/// How the members of a list of choices are called.
#[derive(Debug)]
struct Names {
    current: &'static str,
    all: &'static str,
    id: &'static str,
}

const MODES: Names = Names { current: "currentModeId", all: "availableModes", id: "id" };
const MODELS: Names = Names { current: "currentModelId", all: "availableModels", id: "modelId" };

/// A list of things one of which is current.
#[derive(Debug)]
pub struct Choices {
    raw: Object,
    names: &'static Names,
    ids: Vec<String>,
}

impl Choices {
    /// `None` when there is nothing to choose.
    fn of(raw: &RawValue, names: &'static Names) -> Option<Self> {
        let raw = Object::of(raw.get());
        let all: Vec<&RawValue> = serde_json::from_str(raw.get(names.all)?.get()).ok()?;
        let id = |choice: &RawValue| Object::of(choice.get()).get(names.id).map(|id| text(id).into_owned());
        let ids: Vec<String> = all.into_iter().filter_map(id).filter(|id| !id.is_empty()).collect();
        (!ids.is_empty()).then_some(Self { raw, names, ids })
    }

    /// Their ids.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// Whether it is one of them.
    pub fn lists(&self, id: &str) -> bool {
        self.ids.iter().any(|listed| listed == id)
    }

    /// The current one.
    pub fn current(&self) -> Option<String> {
        self.raw.get(self.names.current).map(text).filter(|id| !id.is_empty()).map(|id| id.into_owned())
    }

    /// Another one is current.
    pub fn choose(&mut self, id: &str) {
        if self.current().as_deref() != Some(id) {
            self.raw.set(self.names.current, &id);
        }
    }

    /// As it is shown.
    pub fn raw(&self) -> &Object {
        &self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(result: &str, fresh: bool) -> Offer {
        let mut offer = Offer::default();
        offer.learn(&Object::of(result), fresh);
        offer
    }

    fn word<T>(known: &Known<T>) -> &'static str {
        match known {
            Known::Unknown => "unknown",
            Known::Nothing => "nothing",
            Known::Listed(_) => "listed",
        }
    }

    /// OPT-03: a new session that is silent about modes has none; one that is taken up may have them all the same.
    #[test]
    fn silence_means_nothing_only_of_a_new_session() {
        let modes = r#"{"modes":{"availableModes":[{"id":"a"}]},"configOptions":[]}"#;
        for (result, fresh, want) in [
            ("{}", true, ["nothing", "nothing"]),
            ("{}", false, ["unknown", "unknown"]),
            (r#"{"modes":null,"configOptions":null}"#, false, ["unknown", "unknown"]),
            (r#"{"modes":{"availableModes":[]},"configOptions":{}}"#, false, ["nothing", "nothing"]),
            (r#"{"modes":[],"configOptions":[]}"#, true, ["nothing", "listed"]),
            (modes, true, ["listed", "listed"]),
        ] {
            let offer = offer(result, fresh);
            assert_eq!([word(&offer.modes), word(&offer.options)], want, "{result}");
        }
        let mut known = offer(modes, true);
        known.learn(&Object::of("{}"), false);
        assert_eq!([word(&known.modes), word(&known.options)], ["listed", "listed"]);
        known.learn(&Object::of("{}"), true);
        assert_eq!([word(&known.modes), word(&known.options)], ["nothing", "nothing"]);
    }

    /// R175, FINDINGS 25: a list stays as it was written, whatever its ids are.
    #[test]
    fn a_list_keeps_its_spelling() {
        let modes = r#"{"x":1.0,"currentModeId":"a","availableModes":[{"id":"a","n":1e400},{"id":"https:\/\/b#c"},7,{"id":""}]}"#;
        let mut offer = offer(&format!(r#"{{"modes":{modes}}}"#), true);
        let modes = offer.modes.listed_mut().unwrap();
        assert_eq!((modes.ids().len(), modes.lists("https://b#c"), modes.lists("")), (2, true, false));
        assert_eq!(modes.current().as_deref(), Some("a"));
        modes.choose("https://b#c");
        let want = r#"{"x":1.0,"currentModeId":"https://b#c","availableModes":[{"id":"a","n":1e400},{"id":"https:\/\/b#c"},7,{"id":""}]}"#;
        assert_eq!(serde_json::to_string(modes.raw()).unwrap(), want);
        let models = r#"{"models":{"currentModelId":"x","availableModels":[{"modelId":"x","name":"X"}]}}"#;
        assert!(super::tests::offer(models, true).models.listed().unwrap().lists("x"));
    }
}
