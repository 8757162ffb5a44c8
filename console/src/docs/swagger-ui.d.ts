// The part of Swagger UI that the page uses. The package has no types.
declare module "swagger-ui-dist/swagger-ui-es-bundle" {
  interface System {
    layoutActions: { updateFilter(text: string): void; show(path: string[], isShown: boolean): void };
    specSelectors: { taggedOperations(): any };
  }
  interface SwaggerUI {
    (options: Record<string, unknown>): System;
    presets: { apis: unknown };
  }
  const create: SwaggerUI;
  export default create;
}
