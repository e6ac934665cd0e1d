//! Expressions for the value of a size.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::ObjectiveError;
use super::program::{Function, Step, Values, Variable, run};

/// The value of a size, as an expression of `n`.
///
/// - Names: `n` (nodes), `rate` (samples/s on n nodes), `rate1` (on one), `speedup`
///   (`rate / rate1`), `weight`, `priority`, `min_nodes`, `max_nodes`, and `samples_left` (work
///   left, in steps of 1 % of the whole).
/// - Operators, the strongest first: `^` (from the right; `-2^2` is -4), unary `-`, `* /`,
///   `+ -`, `< <= > >=` (1 if so, else 0); parentheses.
/// - Functions: `min(a, b)`, `max(a, b)`, `abs`, `sqrt`, `exp`, `ln`, `log2`, `floor`, `ceil`,
///   and `if(condition, then, else)`.
///
/// At no nodes it must be 0; at every size that a trainer may have, finite and not negative.
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
    steps: Arc<[Step]>,
}

/// Longer expressions are refused, characters.
const LONGEST: usize = 1000;

/// Deeper nesting is refused.
const DEEPEST: usize = 100;

impl Expression {
    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether its value depends on the work that is left.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.steps.contains(&Step::Value(Variable::SamplesLeft))
    }

    /// Its value.
    pub(super) fn value(&self, values: &Values, stack: &mut Vec<f64>) -> f64 {
        run(&self.steps, values, stack)
    }
}

impl FromStr for Expression {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let mut reader = Reader {
            text,
            rest: text,
            steps: Vec::new(),
            depth: 0,
        };
        if text.len() > LONGEST {
            return Err(reader.error(format!("expected at most {LONGEST} characters")));
        }
        reader.comparison()?;
        if !reader.rest.trim_start().is_empty() {
            return Err(reader.unexpected("an operator or the end"));
        }
        Ok(Self {
            text: text.trim().into(),
            steps: reader.steps.into(),
        })
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.steps == other.steps
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

/// Reads an expression by recursive descent, one method for each strength of operator.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    steps: Vec<Step>,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn comparison(&mut self) -> Result<(), ObjectiveError> {
        self.sum()?;
        // Longer operators first, so that `<=` is not read as `<`.
        let operators = [
            ("<=", Function::LessOrEqual),
            (">=", Function::GreaterOrEqual),
            ("<", Function::Less),
            (">", Function::Greater),
        ];
        while let Some(function) = self.operator(&operators) {
            self.sum()?;
            self.steps.push(Step::Call(function));
        }
        Ok(())
    }

    fn sum(&mut self) -> Result<(), ObjectiveError> {
        self.product()?;
        let operators = [("+", Function::Add), ("-", Function::Subtract)];
        while let Some(function) = self.operator(&operators) {
            self.product()?;
            self.steps.push(Step::Call(function));
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), ObjectiveError> {
        self.sign()?;
        let operators = [("*", Function::Multiply), ("/", Function::Divide)];
        while let Some(function) = self.operator(&operators) {
            self.sign()?;
            self.steps.push(Step::Call(function));
        }
        Ok(())
    }

    fn sign(&mut self) -> Result<(), ObjectiveError> {
        self.deeper()?;
        if self.take("-") {
            self.sign()?;
            self.steps.push(Step::Call(Function::Negate));
        } else {
            self.power()?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn power(&mut self) -> Result<(), ObjectiveError> {
        self.atom()?;
        if self.take("^") {
            // Of the right side the sign belongs to the exponent, and further powers come first.
            self.sign()?;
            self.steps.push(Step::Call(Function::Power));
        }
        Ok(())
    }

    fn atom(&mut self) -> Result<(), ObjectiveError> {
        self.skip();
        let rest = self.rest;
        let number = number(rest);
        if !number.is_empty() {
            let Ok(value) = number.parse() else {
                return Err(self.unexpected("a number"));
            };
            self.rest = rest.get(number.len()..).unwrap_or("");
            self.steps.push(Step::Number(value));
            return Ok(());
        }
        let name = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(rest, |end| rest.get(..end).unwrap_or(""));
        if !name.is_empty() {
            return self.name(name);
        }
        if !self.take("(") {
            return Err(self.unexpected("a number, a name or a parenthesis"));
        }
        self.comparison()?;
        self.close()
    }

    fn name(&mut self, name: &'a str) -> Result<(), ObjectiveError> {
        let variable = Variable::ALL.into_iter().find(|(known, _)| *known == name);
        if let Some((_, variable)) = variable {
            self.rest = self.rest.get(name.len()..).unwrap_or("");
            self.steps.push(Step::Value(variable));
            return Ok(());
        }
        let function = Function::NAMED
            .into_iter()
            .find(|(known, _)| *known == name);
        let Some((_, function)) = function else {
            let names = Variable::ALL.map(|(name, _)| name).join(", ");
            let functions = Function::NAMED.map(|(name, _)| name).join(", ");
            return Err(self.error(format!(
                "{name:?} is not known: expected one of {names}, or a function: {functions}"
            )));
        };
        self.rest = self.rest.get(name.len()..).unwrap_or("");
        if !self.take("(") {
            return Err(self.unexpected("( after the name of a function"));
        }
        for argument in 0..function.takes() {
            if argument > 0 && !self.take(",") {
                return Err(self.unexpected("a comma and another value"));
            }
            self.comparison()?;
        }
        self.steps.push(Step::Call(function));
        self.close()
    }

    fn close(&mut self) -> Result<(), ObjectiveError> {
        if self.take(")") {
            Ok(())
        } else {
            Err(self.unexpected("an operator or )"))
        }
    }

    fn deeper(&mut self) -> Result<(), ObjectiveError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(format!("expected at most {DEEPEST} levels")));
        }
        Ok(())
    }

    fn operator(&mut self, operators: &[(&str, Function)]) -> Option<Function> {
        let found = operators.iter().find(|(sign, _)| self.take(sign));
        found.map(|&(_, function)| function)
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip();
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self, expected: &str) -> ObjectiveError {
        let found = self.rest.trim_start().chars().next();
        let found = found.map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        self.error(format!("expected {expected}, found {found}"))
    }

    fn error(&self, what: String) -> ObjectiveError {
        let read = self.text.len() - self.rest.trim_start().len();
        let before = self.text.get(..read).unwrap_or(self.text);
        ObjectiveError::Syntax {
            text: self.text.chars().take(80).collect(),
            at: before.chars().count() + 1,
            what,
        }
    }
}

/// The number at the beginning of a text: digits, a point, an exponent.
fn number(text: &str) -> &str {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or(&[]);
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if end > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    text.get(..end).unwrap_or("")
}
