//! The daemon's own setting: the approval mode, as one more option and, where a peer has no modes, as its modes
//! (R171, R175). Pure.

use agent_client_protocol_schema::v1::{
    SessionConfigOption, SessionConfigSelectOption, SessionMode, SessionModeState,
};
use serde_json::value::{RawValue, to_raw_value};

use crate::{policy::Approval, store};

/// Its id.
pub const ID: &str = "approval";
/// Its id beside a peer that has an option of that id itself. Always understood.
pub const ID_BESIDE: &str = "acpvisor.approval";

/// From the store's spelling.
pub fn from_stored(stored: store::Approval) -> Approval {
    match stored {
        store::Approval::Default => Approval::Default,
        store::Approval::AutoEdit => Approval::AutoEdit,
        store::Approval::Yolo => Approval::Yolo,
        store::Approval::Plan => Approval::Plan,
    }
}

/// To the store's spelling.
pub fn to_stored(approval: Approval) -> store::Approval {
    match approval {
        Approval::Default => store::Approval::Default,
        Approval::AutoEdit => store::Approval::AutoEdit,
        Approval::Yolo => store::Approval::Yolo,
        Approval::Plan => store::Approval::Plan,
    }
}

/// The option, as it is shown.
pub fn option(id: &str, current: Approval) -> Box<RawValue> {
    let value = |mode: Approval| {
        SessionConfigSelectOption::new(mode.id(), mode.name()).description(mode.description().to_owned())
    };
    let option = SessionConfigOption::select(
        id.to_owned(),
        "Approval",
        current.id(),
        Approval::ALL.map(value).to_vec(),
    )
    .description("Who decides what the agent asks permission for".to_owned());
    to_raw_value(&option).expect("what the daemon authors is plain data")
}

/// The modes of a peer that has none.
pub fn modes(current: Approval) -> SessionModeState {
    let mode =
        |mode: Approval| SessionMode::new(mode.id(), mode.name()).description(mode.description().to_owned());
    SessionModeState::new(current.id(), Approval::ALL.map(mode).to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// R171: the two spellings, both ways.
    #[test]
    fn the_store_spells_the_modes_its_own_way() {
        for mode in Approval::ALL {
            assert_eq!(from_stored(to_stored(mode)), mode);
            assert_eq!(serde_json::to_value(to_stored(mode)).unwrap(), mode.stored());
        }
    }

    /// R175: the option and the modes are what the schema says, and the current value is one of them.
    #[test]
    fn the_option_and_the_modes_are_the_protocols_own() {
        let option: Value = serde_json::from_str(option(ID, Approval::AutoEdit).get()).unwrap();
        let members: Vec<&String> = option.as_object().unwrap().keys().collect();
        assert_eq!(members, ["id", "name", "description", "type", "currentValue", "options"]);
        assert_eq!((&option["id"], &option["type"]), (&json!("approval"), &json!("select")));
        assert_eq!(option["currentValue"], option["options"][1]["value"]);
        let modes = serde_json::to_value(modes(Approval::Plan)).unwrap();
        assert_eq!(modes["currentModeId"], modes["availableModes"][3]["id"]);
        let ids = |list: &Value, id: &str| {
            list.as_array().unwrap().iter().map(|m| m[id].clone()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&option["options"], "value"), ids(&modes["availableModes"], "id"));
    }
}
