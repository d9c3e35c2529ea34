//! A quantity as the API's description has it: a text.

use utoipa::ToSchema;
// Hidden, and yet the only way: in a map, the implementation of `PartialSchema` alone is not looked at.
use utoipa::__dev::ComposeSchema;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};

use super::Quantity;

impl ComposeSchema for Quantity {
    fn compose(_: Vec<RefOr<Schema>>) -> RefOr<Schema> {
        let number = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)";
        let suffix = r"([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A Kubernetes quantity."))
            .pattern(Some(format!("{number}{suffix}")))
            .examples(["1500m", "2Gi"]);
        text.into()
    }
}

impl ToSchema for Quantity {}
